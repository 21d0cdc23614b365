//! Parsing of bytes to objects.

use manifests::Source;
use manifests::document::{self, Detail, ValueBudget};

/// The errors of the source `in.yaml` with these bytes.
fn errors_of(bytes: &[u8]) -> Vec<String> {
    let source = Source { name: "in.yaml".to_owned(), bytes: bytes.to_vec() };
    match document::parse(&source, &ValueBudget::default(), Detail::Planning) {
        Ok(_) => panic!("was parsed:\n{}", String::from_utf8_lossy(bytes)),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

fn refused(text: &str) -> Vec<String> {
    errors_of(text.as_bytes())
}

#[test]
fn what_cannot_be_parsed_names_document_and_line() {
    let cases: [(&[u8], &str); 10] = [
        (b"a: 1\nb: \xff\n", "in.yaml: line 2: the text is not UTF-8"),
        (b"kind: Pod\nmetadata: {name: a\n", "in.yaml, document 1: not valid YAML"),
        (b"kind: Pod\n\tname: x\n", "tab"),
        (b"{\"kind\": \"Pod\",\n \"metadata\": }", "in.yaml, document 1: line 2, column"),
        (b"just words\n", "in.yaml, document 1: line 1: found \"just words\""),
        (b"- a: 1\n", "found a list"),
        (b"[1, 2]", "found a list"),
        (b"kind: {{ .Values.kind }}\n", "template"),
        (b"# c\n---\nkind: Pod\nkind: Pod\n", "kind"),
        (b"\xff\xfek\0", "UTF-16"),
    ];
    for (bytes, expected) in cases {
        let line = &errors_of(bytes)[0];
        assert!(line.contains(expected), "{:?} gave {line}", String::from_utf8_lossy(bytes));
        assert!(!line.contains('\n'), "{line}");
    }
}

#[test]
fn lines_are_counted_from_the_beginning_of_the_source() {
    let errors = refused("kind: A\napiVersion: x/v1\n---\nkind: B\nx: [1\n");
    assert!(
        errors[0].contains("document 2") && (errors[0].contains("line 5") || errors[0].contains("line 6")),
        "{errors:?}"
    );
}

#[test]
fn exploding_anchors_are_rejected() {
    let mut bomb = String::from("apiVersion: v1\nkind: Pod\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let refs = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{refs}]\n"));
    }
    let errors = refused(&bomb);
    assert!(errors[0].starts_with("in.yaml, document 1: not valid YAML"), "{errors:?}");
}

#[test]
fn deep_nesting_is_rejected_and_not_followed() {
    for text in [
        format!("{{\"a\":{}", "[".repeat(100_000)),
        format!("a: {}", "[".repeat(100_000)),
        format!("a: {}1", "- ".repeat(20_000)),
    ] {
        assert_eq!(refused(&text).len(), 1);
    }
}

#[test]
fn invalid_input_of_any_size_is_rejected_at_its_first_line() {
    let rubbish = "x".repeat(10 << 20);
    let errors = refused(&rubbish);
    assert!(errors[0].len() < 300, "{}", errors[0].len());
}

#[test]
fn text_that_parses_as_yaml_is_rejected_at_its_hundredth_field() {
    let rubbish: String = (0..100_000).map(|number| format!("key{number}: [1, {{a: b}}]\n")).collect();
    let errors = refused(&rubbish);
    assert!(errors[0].contains("more than 100 fields at the top"), "{errors:?}");
}

#[test]
fn a_field_that_occurs_twice_is_an_error_in_json_too() {
    let errors = refused("{\"kind\": \"A\", \"apiVersion\": \"x/v1\",\n \"spec\": {\"b\": 1, \"b\": 2}}");
    assert!(errors[0].contains("line 2") && errors[0].contains("\"b\" occurs twice"), "{errors:?}");
}

#[test]
fn fields_that_planning_does_not_read_are_dropped_for_planning_only() {
    let read = |text: &str, detail: Detail| {
        let source = Source { name: "x".to_owned(), bytes: text.as_bytes().to_vec() };
        let documents = document::parse(&source, &ValueBudget::default(), detail).expect("the text is valid");
        documents.into_iter().map(|document| document.value.to_string()).collect::<String>()
    };
    // Labels may have any key, and a field that Kubernetes does not define may be a typing error.
    let text = r#"{"kind":"Pod","metadata":{"labels":{"image":"a","env":"b"}},"spec":{"containers":[{"name":"a","image":"i","env":[{"name":"K","value":"v"}],"resorces":{}}],"volumes":[{"name":"c","configMap":{"name":"x"}},{"name":"d","persistentVolumeClaim":{"claimName":"d"}}]}}"#;
    assert_eq!(read(text, Detail::Whole), text);
    let planned = r#"{"kind":"Pod","metadata":{"labels":{"image":"a","env":"b"}},"spec":{"containers":[{"name":"a","resorces":{}}],"volumes":[{"name":"c"},{"name":"d","persistentVolumeClaim":{"claimName":"d"}}]}}"#;
    assert_eq!(read(text, Detail::Planning), planned);
}
