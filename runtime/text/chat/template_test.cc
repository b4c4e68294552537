#include "runtime/text/chat/template.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/shared_data.h"

namespace headway::text::chat {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 2026-03-05 14:07:09, a Thursday: when the golden values were made.
std::tm GoldenNow() {
  std::tm now = {};
  now.tm_year = 126;
  now.tm_mon = 2;
  now.tm_mday = 5;
  now.tm_hour = 14;
  now.tm_min = 7;
  now.tm_sec = 9;
  now.tm_wday = 4;
  now.tm_yday = 63;
  return now;
}

absl::StatusOr<std::vector<TextPiece>> RenderPieces(const std::string& source,
                                                    const Json& variables = Json::object(),
                                                    const Limits& limits = {}) {
  auto parsed = Template::Parse(source, limits);
  if (!parsed.ok()) return parsed.status();
  return parsed->Render({.request = &variables, .trusted = {{"bos", "<s>"}}, .now = GoldenNow()});
}

// What is printed, or the error.
std::string Render(const std::string& source, const Json& variables = Json::object()) {
  const auto pieces = RenderPieces(source, variables);
  if (!pieces.ok()) return "error: " + std::string(pieces.status().message());
  std::string text;
  for (const TextPiece& piece : *pieces) text += piece.text;
  return text;
}

// The same with untrusted text in brackets.
std::string Marked(const std::string& source, const Json& variables) {
  const auto pieces = RenderPieces(source, variables);
  if (!pieces.ok()) return "error: " + std::string(pieces.status().message());
  std::string text;
  for (const TextPiece& piece : *pieces) {
    text += piece.is_trusted ? piece.text : "[" + piece.text + "]";
  }
  return text;
}

TEST(TemplateTest, GoldenFeatures) {
  const Json golden = Json::parse(std::ifstream(GoldenPath("text/jinja.json")));
  ASSERT_GE(golden["cases"].size(), 117u);
  for (const Json& c : golden["cases"]) {
    const std::string rendered = Render(c["template"].get<std::string>(), c["vars"]);
    if (c.contains("rendered")) {
      EXPECT_EQ(rendered, c["rendered"].get<std::string>()) << c["name"];
    } else {
      EXPECT_THAT(rendered, testing::StartsWith("error: ")) << c["name"];
      if (c["error_kind"] == "raise_exception") {
        EXPECT_THAT(rendered, HasSubstr(c["error"].get<std::string>())) << c["name"];
      }
    }
  }
}

TEST(TemplateTest, HostileTemplatesStayWithinTheirLimits) {
  const Json golden = Json::parse(std::ifstream(GoldenPath("text/hostile.json")));
  ASSERT_GE(golden["cases"].size(), 22u);
  const size_t most = golden["limits"]["output_bytes"].get<size_t>();
  for (const Json& c : golden["cases"]) {
    const auto pieces = RenderPieces(c["template"].get<std::string>());
    size_t size = 0;
    if (pieces.ok()) {
      for (const TextPiece& piece : *pieces) size += piece.text.size();
    }
    EXPECT_LE(size, most) << c["name"];
  }
}

// What must end in an error, and which.
TEST(TemplateTest, LimitsAreNamed) {
  const auto code = [](const std::string& source) { return RenderPieces(source).status().code(); };
  const auto exhausted = absl::StatusCode::kResourceExhausted;
  EXPECT_EQ(code("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"),
            exhausted);
  EXPECT_EQ(code("{{ range(100001) }}"), exhausted);
  EXPECT_EQ(code("{{ 'a' * 10 ** 12 }}"), exhausted);
  EXPECT_EQ(code("{{ 9 ** 9 ** 9 }}"), exhausted);
  EXPECT_EQ(code("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), exhausted);
  // As deep on the stack as it gets: calls inside nested lists.
  EXPECT_EQ(code("{% macro f() %}{{ " + std::string(150, '[') + "f()" + std::string(150, ']') +
                 " }}{% endmacro %}{{ f() }}"),
            exhausted);
  EXPECT_EQ(code("{{ 'a' * 9000000 }}"), exhausted);  // printed
  EXPECT_EQ(code("{% set ns = namespace(x=[]) %}{% for i in range(300) %}"
                 "{% set ns.x = [ns.x] %}{% endfor %}"),
            exhausted);
  // One deep value, printed twice as often at each level.
  EXPECT_EQ(code("{% set ns = namespace(x=['a']) %}{% for i in range(60) %}"
                 "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | tojson }}"),
            exhausted);
  EXPECT_EQ(code("{% set ns = namespace(x=['a']) %}{% for i in range(60) %}"
                 "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x == [ns.x] + [] }}"),
            absl::StatusCode::kOk);
  const auto syntax = absl::StatusCode::kInvalidArgument;
  const auto repeat = [](const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  };
  for (const std::string_view open : {"(", "[", "-", "not ", "{1:", "x[", "x("}) {
    EXPECT_EQ(code("{{ " + repeat(std::string(open), 5000)), syntax) << open;
  }
  EXPECT_EQ(code("{{ " + repeat("1 if 1 else ", 5000) + "1 }}"), syntax);
  EXPECT_EQ(code(repeat("{% if 1 %}", 5000)), syntax);
  EXPECT_EQ(code(std::string(300'000, 'x')), syntax);
  // Long, but not deep.
  EXPECT_EQ(code("{{ 1" + repeat(" + 1", 5000) + " }}"), absl::StatusCode::kOk);
  EXPECT_EQ(code("{{ 'a'" + repeat("|string", 5000) + " }}"), absl::StatusCode::kOk);
  EXPECT_EQ(code("{{ 'a'" + repeat(".strip()", 5000) + " }}"), absl::StatusCode::kOk);
  EXPECT_EQ(code("{% if 0 %}" + repeat("{% elif 0 %}", 5000) + "{% endif %}"),
            absl::StatusCode::kOk);
}

TEST(TemplateTest, WorkOnLongTextsCountsAsSteps) {
  // Each step alone is cheap to write, but goes through megabytes: were it counted as one, this
  // would not end in time.
  for (const char* body :
       {"{% set y = x | upper %}", "{% set y = 'b' in x %}", "{% set y = x.find('b') %}",
        "{% set y = x == x + '' %}", "{% set y = x[1:] %}", "{% set y = x | length %}",
        "{% set y = {x: 1}[x] %}", "{% set y = x.split('b') %}", "{% set y = x.strip(x) %}",
        "{% set y = x.removeprefix(x) %}", "{% set y = x.rfind('b') %}",
        "{% set y = [x, x] | unique | list %}", "{% set y = x | tojson %}",
        "{% set y = x.isdigit() %}"}) {
    const auto status = RenderPieces("{% set x = 'a' * 1000000 %}{% for i in range(99999) %}" +
                                         std::string(body) + "{% endfor %}",
                                     Json::object(), {.steps = 100'000})
                            .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << body;
  }
}

TEST(TemplateTest, ValuesThatHoldThemselvesDoNotLeak) {
  // The address sanitizer looks for what is lost.
  EXPECT_EQ(Render("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns.me.me.me is defined }}"),
            "True");
  EXPECT_EQ(Render("{% set ns = namespace() %}{% for x in [1] %}{% set ns.l = loop %}"
                   "{{ loop.changed(loop) }}{% endfor %}{{ ns.l.changed(ns.l) }}{{ ns.l.index }}"),
            "TrueTrue1");
  EXPECT_EQ(Render("{% set ns = namespace() %}{% for x in [1, 2] %}{% macro m() %}{{ x }}"
                   "{% endmacro %}{% set ns.m = m %}{% endfor %}{{ ns.m() }}"),
            "2");
  EXPECT_THAT(Render("{% set ns = namespace() %}{% for x in [1] recursive %}{% set ns.l = loop %}"
                     "{% endfor %}{{ ns.l([1]) }}"),
              HasSubstr("the loop is over"));
}

TEST(TemplateTest, ErrorsNameTheLine) {
  EXPECT_THAT(Render("a\nb\n{{ x.y }}"), HasSubstr("line 3: 'x' is undefined"));
  EXPECT_THAT(Render("a\n{% for x in [1] %}\n\n{{ 1 + 'a' }}{% endfor %}"), HasSubstr("line 4: "));
  EXPECT_THAT(Render("\n{% if %}"), HasSubstr("line 2: expected an expression"));
  EXPECT_THAT(Render("\n\n{% nope %}"), HasSubstr("line 3: the tag 'nope'"));
  EXPECT_THAT(Render("{{ 'a\n"), HasSubstr("line 1"));
  EXPECT_THAT(Render("\n{#"), HasSubstr("line 2: Missing end of comment"));
  EXPECT_THAT(Render("{% raw %}\n"), HasSubstr("raw"));
  EXPECT_EQ(Render("{{ raise_exception('No!') }}"),
            "error: the chat template refuses the messages: No!");
}

TEST(TemplateTest, RefusesMalformedSources) {
  for (const char* source : {"{{ }}",
                             "{{ 1 1 }}",
                             "{{ (1 }}",
                             "{{ [1) }}",
                             "{{ a b }}",
                             "{{ 'x }}",
                             "{{ 1 +* 2 }}",
                             "{% for %}",
                             "{% for x %}",
                             "{% for x in %}",
                             "{% for 1 in x %}{% endfor %}",
                             "{% endif %}",
                             "{% if 1 %}{% endfor %}",
                             "{% else %}",
                             "{% set %}",
                             "{% set 1 = 2 %}",
                             "{% set true = 2 %}",
                             "{% macro %}{% endmacro %}",
                             "{% macro m(a=1, b) %}{% endmacro %}",
                             "{% break %}",
                             "{% for x in y %}{% set z %}{% break %}{% endset %}{% endfor %}",
                             "{% call x %}{% endcall %}",
                             "{{ f(a=1, 2) }}",
                             "{{ f(**a, b) }}",
                             "{{ x is }}",
                             "{{ x | }}",
                             "{{ x. }}",
                             "{{ x[ }}",
                             "{{ '\\ud83d' }}",
                             "{{ '\\xg0' }}",
                             "{{ $ }}",
                             "{% include 'x' %}",
                             "{% extends 'x' %}",
                             "{% block x %}{% endblock %}",
                             "{% import 'x' as y %}",
                             "{{ 99999999999999999999999999999999999999999 }}",
                             "{{ 1e999 }}",
                             "\xff"}) {
    EXPECT_EQ(Template::Parse(source).status().code(), absl::StatusCode::kInvalidArgument)
        << source;
  }
}

TEST(TemplateTest, UnknownNamesFailOnlyWhereTheyAreUsed) {
  EXPECT_EQ(Render("{% if false %}{{ 1 | nofilter }}{{ 1 is notest }}{% endif %}ok"), "ok");
  EXPECT_THAT(Render("{{ 1 | nofilter }}"), HasSubstr("No filter named 'nofilter'"));
}

// The marks of where text comes from.
TEST(TemplateTest, TextOfTheRequestIsMarked) {
  const Json vars = {
      {"u", "User"}, {"n", 7}, {"t", true}, {"l", {"a", "b"}}, {"d", {{"key", "value"}}}};
  EXPECT_EQ(Marked("x{{ u }}y{{ bos }}", vars), "x[User]y<s>");
  EXPECT_EQ(Marked("{{ '<' + u + '>' }}{{ '<' ~ u ~ '>' }}", vars), "<[User]><[User]>");
  EXPECT_EQ(Marked("{{ u[1:] }}|{{ u[::-1] }}|{{ u[0] }}", vars), "[ser]|[resU]|[U]");
  EXPECT_EQ(Marked("{{ ('<' + u + '>')[::-1] }}", vars), ">[resU]<");
  EXPECT_EQ(Marked("{{ ('<' + u + '>')[0:3] }}", vars), "<[Us]");
  EXPECT_EQ(Marked("{{ (' ' + u + ' ').strip() }}|{{ ' x '.strip() }}", vars), "[User]|x");
  EXPECT_EQ(Marked("{{ ('a' + u).split('s') }}", vars), "['a[U]', '[er]']");
  EXPECT_EQ(Marked("{{ ('a' + u).partition('s')[1] }}", vars), "[s]");
  EXPECT_EQ(Marked("{{ u.replace('s', '<s>') }}|{{ u | replace('s', '-') }}", vars),
            "[U]<s>[er]|[U]-[er]");
  EXPECT_EQ(Marked("{{ 'abc'.replace('b', u) }}", vars), "a[User]c");
  EXPECT_EQ(Marked("{{ u | upper }}{{ u.lower() }}{{ u | title }}{{ u | capitalize }}", vars),
            "[USERuserUserUser]");
  EXPECT_EQ(Marked("{{ ('x' + u + 'y') | upper }}", vars), "X[USER]Y");
  EXPECT_EQ(Marked("{{ ', '.join(l) }}|{{ l | join('-') }}", vars), "[a], [b]|[a]-[b]");
  EXPECT_EQ(Marked("{{ u * 2 }}|{{ ('<' + u) * 2 }}", vars), "[UserUser]|<[User]<[User]");
  EXPECT_EQ(Marked("{{ u | reverse }}|{{ u | list | join }}|{{ u | trim('U') }}", vars),
            "[resU]|[User]|[ser]");
  EXPECT_EQ(Marked("{{ '%s!' | format(u) }}|{{ '{}?'.format(u) }}|{{ u % () }}", vars),
            "[User]!|[User]?|[User]");
  EXPECT_EQ(
      Marked("{{ u | e }}{{ u | indent(2, true) }}|{{ u | center(8) }}|{{ u.ljust(6) }}", vars),
      "[User]  [User]|  [User]  |[User]  ");
  EXPECT_EQ(Marked("{{ d | tojson }}|{{ d }}|{{ d.items() | list }}", vars),
            "{\"[key]\": \"[value]\"}|{'[key]': '[value]'}|[('[key]', '[value]')]");
  EXPECT_EQ(Marked("{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}", vars),
            "[key]=[value]");
  EXPECT_EQ(Marked("{% for c in u %}{{ c }}-{% endfor %}", vars), "[U]-[s]-[e]-[r]-");
  EXPECT_EQ(Marked("{% set x %}<{{ u }}>{% endset %}{{ x }}{{ x | upper }}", vars),
            "<[User]><[USER]>");
  EXPECT_EQ(Marked("{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(u) }}{{ m('t') }}", vars),
            "<[User]><t>");
  EXPECT_EQ(Marked("{% filter upper %}a{{ u }}{% endfilter %}", vars), "A[USER]");
  EXPECT_EQ(Marked("{% set ns = namespace(x=u) %}{{ ns.x }}", vars), "[User]");
  EXPECT_EQ(Marked("{{ l | map('upper') | join }}{{ l | first }}{{ l | sort | last }}", vars),
            "[ABab]");
  EXPECT_EQ(Marked("{{ u | default('d') }}{{ nope | default('d') }}{{ nope | default(u) }}", vars),
            "[User]d[User]");
  EXPECT_EQ(Marked("{{ u if true else 'x' }}{{ u or 'x' }}{{ '' or 'x' }}", vars), "[UserUser]x");
  // Numbers, too, could complete the name of a control token.
  EXPECT_EQ(Marked("{{ n }}{{ 1 }}{{ n + 1 }}{{ t }}{{ n | string }}{{ '%d' | format(n) }}", vars),
            "[7]1[8True77]");
  EXPECT_EQ(Marked("{{ [n] | tojson }}{{ '7' | int }}{{ (u ~ '7')[4:] | int }}", vars), "[[7]]77");
  EXPECT_EQ(Marked("{{ u | length }}", vars), "4");
  // A format that came with the request fills with its own characters.
  EXPECT_EQ(Marked("{{ f.format('a', 7) }}|{{ '{:<>4}'.format('a') }}", {{"f", "{:<>4}{:03d}"}}),
            "[<<<]a[007]|<<<a");
  EXPECT_EQ(Marked("{{ p % 7 }}", {{"p", "%03d"}}), "[007]");
  // Names of arguments may come from the request.
  EXPECT_EQ(
      Marked("{{ dict(**d) }}{% macro m() %}{{ kwargs | list }}{% endmacro %}{{ m(**d) }}", vars),
      "{'[key]': '[value]'}['[key]']");
}

TEST(TemplateTest, MoreThanTheGoldenCases) {
  EXPECT_EQ(Render("{{ 'a b'.title() }} {{ \"it's\".title() }} {{ \"it's\" | title }}"),
            "A B It'S It's");
  EXPECT_EQ(Render("{{ 'abcabc'.rfind('b') }} {{ 'abc'.index('c') }} {{ 'aXbX'.rsplit('X', 1) }}"),
            "4 2 ['aXb', '']");
  EXPECT_EQ(Render("{{ ' a b '.rsplit(none, 1) }} {{ 'a\\nb\\r\\nc'.splitlines() }}"),
            "[' a', 'b'] ['a', 'b', 'c']");
  EXPECT_EQ(Render("{{ 'abc'.removeprefix('a').removesuffix('c') }} {{ 'x'.center(4, '*') }}"),
            "b *x**");
  EXPECT_EQ(Render("{{ 'stra\\u00dfe'.upper() }} {{ '\\u03a3\\u039f\\u03a3'.lower() }}"),
            "STRASSE \xcf\x83\xce\xbf\xcf\x82");
  EXPECT_EQ(Render("{{ 'abc'.startswith(('x', 'a')) }} {{ 'abc'.startswith('b', 1) }}"),
            "True True");
  EXPECT_EQ(Render("{{ 'ab'.replace('', '-') }} {{ 'aaa'.replace('a', 'b', 2) }}"), "-a-b- bba");
  EXPECT_EQ(Render("{{ 7 | string | int }} {{ '0x1f' | int(0, 16) }} {{ '1e2' | float }} "
                   "{{ 'x' | float(2.5) }}"),
            "7 31 100.0 2.5");
  EXPECT_EQ(Render("{{ '%05.1f|%-4s|%+d|%x|%r' % (3.14159, 'ab', 5, 255, 'q') }}"),
            "003.1|ab  |+5|ff|'q'");
  EXPECT_EQ(
      Render("{{ '{:>5}|{:<4}|{:^5}|{:.2f}|{:03d}|{!r}'.format('a', 'b', 'c', 1.5, 7, 'q') }}"),
      "    a|b   |  c  |1.50|007|'q'");
  EXPECT_EQ(Render("{{ '{a} {{}} {0}'.format(1, a=2) }}"), "2 {} 1");
  EXPECT_THAT(Render("{{ '{0.x}'.format(1) }}"), HasSubstr("error"));
  EXPECT_EQ(Render("{{ 'one two three' | truncate(8, false, '...', 0) }}"), "one...");
  EXPECT_EQ(Render("{{ [3, 1, 2] | sort(reverse=true) | join }} {{ [[2, 'b'], [1, 'a']] | sort }}"),
            "321 [[1, 'a'], [2, 'b']]");
  EXPECT_EQ(Render("{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} "
                   "{{ 2.1 | round(0, 'ceil') }} {{ 1234 | round(-2) }}"),
            "2.0 4.0 2.67 3.0 1200.0");
  EXPECT_EQ(Render("{{ [1, 2, 3, 4, 5] | slice(2) | list }}"), "[[1, 2, 3], [4, 5]]");
  EXPECT_EQ(
      Render("{% set g = [1, 2] | select %}{% if g %}y{% endif %}{{ g | list }}{{ g | list }}"),
      "y[1, 2][]");
  EXPECT_EQ(Render("{% if [] | select %}always{% endif %}"), "always");
  EXPECT_EQ(Render("{{ f(*[1, 2], **{'k': 3}) }}"),
            "error: chat template, line 1: 'f' is undefined");
  EXPECT_EQ(Render("{% macro f(a, b, k) %}{{ a }}{{ b }}{{ k }}{% endmacro %}"
                   "{{ f(*[1, 2], **{'k': 3}) }}"),
            "123");
  EXPECT_EQ(Render("{% macro f(a, b=a) %}{{ b }}{% endmacro %}{{ f(1) }}"), "1");
  EXPECT_EQ(Render("{% call(x) f() %}<{{ x }}>{% endcall %}"),
            "error: chat template, line 1: 'f' is undefined");
  EXPECT_EQ(Render("{% macro f() %}{{ caller(5) }}{% endmacro %}{% call(x) f() %}<{{ x }}>"
                   "{% endcall %}"),
            "<5>");
  EXPECT_EQ(Render("{{ 5 if false }}|{{ (1, 2)[1] }}|{{ {'a': {'b': 1}}.a.b }}|{{ [1, [2]].1.0 }}"),
            "|2|1|2");
  EXPECT_EQ(Render("{% for x in [1, 2] if x > 5 %}{% else %}none{% endfor %}"), "none");
  EXPECT_EQ(Render("{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}"), "123");
  EXPECT_THAT(Render("{% for a, b in [(1, 2, 3)] %}{% endfor %}"), HasSubstr("too many values"));
  EXPECT_EQ(Render("{{ 1 in (1, 2) }} {{ 'a' not in {'a': 1} }} {{ (1, 2) == (1, 2) }} "
                   "{{ [1] == (1,) }} {{ {'a': 1} == {'a': 1.0} }}"),
            "True False True False True");
  EXPECT_EQ(Render("{{ -7 // 2 }} {{ -7 % -3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 2 ** -1 }}"),
            "-4 -1 3.0 0.5 0.5");
  EXPECT_THAT(Render("{{ 1 // 0 }}"), HasSubstr("division by zero"));
  EXPECT_THAT(Render("{{ 170141183460469231731687303715884105727 + 1 }}"), HasSubstr("127 bits"));
  EXPECT_EQ(Render("{{ [1, 2, 3][::-2] }} {{ 'abc'[-2:] }} {{ [1, 2][5:] }} {{ "
                   "'abc'[4611686018427387904] }}"),
            "[3, 1] bc [] ");
  EXPECT_EQ(Render("{{ [1, 2, 3][::4611686018427387903] }}{{ 'ab'[1::-4611686018427387903] }}"),
            "[1]b");
  EXPECT_EQ(Render("{{ [{'a': 1}] | map(attribute='b') | first is defined }}"), "False");
  EXPECT_EQ(Render("a\r\nb\rc"), "a\nb\nc");
  EXPECT_EQ(Render("{% raw -%}  {{ x }}  {%- endraw %}|"), "{{ x }}|");
  EXPECT_EQ(Render("{{ {'}}': '%}'}['}}'] }}"), "%}");
}

TEST(TemplateTest, ValuesOfTheRequest) {
  EXPECT_EQ(Render("{{ x }}", {{"x", {1, -2, 18446744073709551615u, 1.5, nullptr, true, "s"}}}),
            "[1, -2, 18446744073709551615, 1.5, None, True, 's']");
  EXPECT_THAT(Render("{{ x }}", {{"x", "\xff"}}), HasSubstr("not UTF-8"));
  Json deep = 1;
  for (int i = 0; i < 300; ++i) deep = Json::array({deep});
  EXPECT_THAT(Render("{{ x }}", {{"x", deep}}), HasSubstr("deep"));
  EXPECT_EQ(RenderPieces("", {{"x", std::string(2 << 20, 'a')}}, {.memory_bytes = 1 << 20})
                .status()
                .code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace headway::text::chat
