use shopmirror_core::record::fixtures::change;

use super::super::values::NAMES;
use super::*;

const HOSTILE: &str = "\"},{\"x\":\"\\ \u{1}{{ 7*7 }}\u{2}</b>\r\n\u{0}\u{202e}'=1";

fn record() -> String {
    let name = serde_json::Value::from(HOSTILE).to_string();
    format!(
        r#"{{"id":12,"name":{name},"status":"Won","amount":10.10,"note":null,"tags":["a","b"]}}"#
    )
}

fn compile(source: &str, escape: Escape) -> Result<Template, TemplateError> {
    Template::compile(source, escape, &NAMES)
}

fn rendered(source: &str, escape: Escape) -> Result<String, TemplateError> {
    compile(source, escape)?.render(&Context::for_change(&change(&record())))
}

fn problem(source: &str) -> String {
    rendered(source, Escape::Json).unwrap_err().to_string()
}

#[test]
fn hostile_text_stays_one_value_in_a_string_and_outside_of_one() {
    let source = r#"{"a": "Lead {{ record.name }}!", "b": {{ record.name }}, "c": {{ record }},
        {% set twice %}{{ record.name }}{% endset %}"d": {{ twice }}, "e": "{{ twice }}",
        {% macro line(x) %}"{{ x }}"{% endmacro %}"f": {{ line(record.name) }},
        "g": "{{ record.note }}", "h": {{ record.note }}, "i": "{{ record.tags }}",
        "j": {% autoescape false %}{{ record.name }}{% endautoescape %}, "n": {{ seq + 1 }}}"#;
    let text = rendered(source, Escape::Json).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["a"], format!("Lead {HOSTILE}!"));
    for name in ["b", "d", "e", "f", "j"] {
        assert_eq!(json[name], HOSTILE, "{name}");
    }
    assert_eq!(json["c"]["name"], HOSTILE);
    assert_eq!(
        (&json["g"], &json["h"]),
        (&"".into(), &serde_json::Value::Null)
    );
    assert_eq!(json["i"], r#"["a","b"]"#);
    assert_eq!(json["n"], 8);
}

#[test]
fn a_list_in_a_text_has_commas_and_what_is_nested_is_json() {
    let body =
        r#"{"none":[],"tags":["a, b",1,true,null,"<c>"],"deep":[["a"],{"b":null}],"null":null}"#;
    for (source, escape, text) in [
        (
            "{{ record.none }}|{{ record.null }}|{{ record.tags }}",
            Escape::Text,
            "||a, b, 1, true, <c>",
        ),
        ("{{ record.deep }}", Escape::Text, r#"[["a"],{"b":null}]"#),
        (
            "{{ record.tags }}",
            Escape::Html,
            "a, b, 1, true, &lt;c&gt;",
        ),
        (r#"{{ record.nme|default("-") }}"#, Escape::Text, "-"),
    ] {
        let shown = compile(source, escape)
            .unwrap()
            .render(&Context::for_change(&change(body)));
        assert_eq!(shown.unwrap(), text, "{source}");
    }
}

#[test]
fn the_filter_markdown_leaves_no_markup_link_or_mention() {
    let name =
        "[pay](https://evil.example/x) <@12> @everyone **b** `c` www.evil.example 3.5 mm Dr. X";
    let body = serde_json::json!({"name": name, "note": null, "n": 7}).to_string();
    let shown = |source: &str| {
        let template = compile(source, Escape::Text).unwrap();
        template
            .render(&Context::for_change(&change(&body)))
            .unwrap()
    };
    assert_eq!(
        shown("{{ record.name|markdown }}"),
        "\\[pay\\](https:\u{2060}//evil.\u{2060}example/x) \\<@\u{2060}12\\> @\u{2060}everyone \
         \\*\\*b\\*\\* \\`c\\` www.\u{2060}evil.\u{2060}example 3.5 mm Dr. X"
    );
    assert_eq!(
        shown("{{ record.note|markdown }}|{{ record.n|markdown }}"),
        "|7"
    );
    assert!(rendered("{{ record.absent|markdown }}", Escape::Json).is_err());
}

#[test]
fn an_unknown_filter_or_test_is_found_before_a_change_reaches_it() {
    for (source, at, words) in [
        (
            "{% if seq == 0 %}{{ route|uper }}{% endif %}",
            (1, 27),
            "filter uper is unknown",
        ),
        (
            "{{ record.absent|default(route)|uper }}",
            (1, 33),
            "filter uper is unknown",
        ),
        (
            "{% filter uper %}a{% endfilter %}",
            (1, 11),
            "filter uper is unknown",
        ),
        (
            "{% if seq == 0 and route is not strng %}1{% endif %}",
            (1, 33),
            "test strng is unknown",
        ),
    ] {
        let error = compile(source, Escape::Text).unwrap_err();
        assert_eq!(error.at, Some(at), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    for source in [
        "{{ record.is|upper }}",
        "{{ route is not undefined }}",
        "{% set is = 1 %}{{ is }}",
        "{{ \"a|uper\" }}{# |uper #}|uper",
        "{% raw %}{{ a|uper }}{% endraw %}",
        "{% filter upper %}filter{% endfilter %}",
        "{{ route|upper|lower|entities|markdown }}",
    ] {
        compile(source, Escape::Text).unwrap();
    }
}

#[test]
fn a_problem_has_its_line_and_column() {
    for (source, at, words) in [
        (
            "{\n  \"a\": \"{{ route|uper }}\"}",
            (2, 18),
            "filter uper is unknown",
        ),
        (
            "{% if route is strng %}1{% endif %}",
            (1, 16),
            "test strng is unknown",
        ),
        (
            "{\"a\": {{ record.nme }}}",
            (1, 10),
            "`record.nme` is not defined",
        ),
        (
            "{\"a\": {{ record.nme|upper }}}",
            (1, 21),
            "`record.nme` is not defined",
        ),
        ("\u{1}", (1, 1), "control character"),
    ] {
        let error = rendered(source, Escape::Json).unwrap_err();
        let (line, column) = error.at.unwrap();
        assert_eq!((line, column), at, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn work_and_output_are_bounded() {
    let long = format!(
        "{{% for a in range(1000) %}}{}{{% endfor %}}",
        "x".repeat(300)
    );
    for escape in [Escape::Text, Escape::Html, Escape::Json] {
        let problem = rendered(&long, escape).unwrap_err().problem;
        assert!(problem.contains("longer than 262144 bytes"), "{problem}");
    }
    let endless = "{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}1";
    assert!(problem(endless).contains("steps"), "{}", problem(endless));
    let deep = "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}";
    assert!(rendered(deep, Escape::Text).is_err());
    assert!(problem("{% include \"/etc/passwd\" %}").contains("one piece"));
}

#[test]
fn the_media_type_says_what_is_escaped_and_nothing_switches_that_off() {
    for (media_type, escape) in [
        ("application/vnd.x+json; charset=utf-8", Escape::Json),
        ("Text/HTML", Escape::Html),
        ("application/xml", Escape::Html),
        ("application/x-www-form-urlencoded", Escape::Text),
    ] {
        assert_eq!(Escape::for_media_type(media_type), escape, "{media_type}");
    }
    let source =
        "<b>{{ record.name }}</b>{% autoescape false %}{{ record.name }}{% endautoescape %}";
    let text = rendered(source, Escape::Html).unwrap();
    assert_eq!(text.matches("</b>").count(), 1, "{text}");
    assert!(rendered("{{ record.name|safe }}", Escape::Html).is_err());
}

#[test]
fn an_output_that_is_not_json_is_refused_and_no_problem_quotes_a_record() {
    assert!(problem("{\"a\": {{ route }},}").contains("not JSON at line 1"));
    for source in [
        "{{ record.name + 1 }}",
        "{{ record.name.x.y }}",
        "{{ record.name|int }}",
    ] {
        let problem = problem(source);
        assert!(
            !problem.contains("7*7") && !problem.contains("=1"),
            "{problem}"
        );
    }
}
