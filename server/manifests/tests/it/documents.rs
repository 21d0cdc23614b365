//! Parsing of bytes to objects.

use manifests::document::{self, Detail, ValueBudget};
use manifests::{Options, Source};
use proptest::prelude::{ProptestConfig, any, proptest};

use crate::{captured, input, planned, pod, refused};

#[test]
fn json_yaml_lists_and_empty_documents_give_the_same_objects() {
    let json = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"},"spec":{"containers":[{"name":"a"}]}}"#;
    let typed = r#"{"apiVersion":"v1","kind":"PodList","metadata":{},"items":[{"metadata":{"name":"c"},"spec":{"containers":[{"name":"a"}]}}]}"#;
    let list = format!("apiVersion: v1\nkind: List\nitems:\n- {json}\n");
    let text = format!("# only a comment\n---\n---\n{}...\n{typed}\n---\n{list}", pod("a", ""));
    assert_eq!(planned(&input(&text)), "default/a Pod/a\ndefault/b Pod/b\ndefault/c Pod/c");
    let twice = format!("{json}\n{typed} ");
    assert_eq!(planned(&input(&twice)), "default/b Pod/b\ndefault/c Pod/c");
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_do_not_matter() {
    let text = format!("\u{FEFF}{}", pod("a", "")).replace('\n', "\r\n");
    assert_eq!(planned(&input(&text)), "default/a Pod/a");
}

#[test]
fn aliases_and_merge_keys_are_followed() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  nodeSelector: &s {x: v}\n  containers: [{name: a}]\n  affinity: {}\n---\n";
    assert_eq!(planned(&input(text)), "default/a Pod/a");
}

#[test]
fn an_equal_duplicate_is_a_note_and_a_different_one_is_an_error() {
    let dumped = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: default, labels: {app: a}, resourceVersion: '7', managedFields: [{manager: x}]}\nspec: {containers: [{name: a}]}\nstatus: {phase: Pending}\n---\n";
    let captured = captured(&format!("{}{dumped}", pod("a", "")));
    assert_eq!(planned(&captured.input), "default/a Pod/a");
    assert!(captured.notes.iter().any(|note| note.contains("Pod/default/a")), "{:?}", captured.notes);
    let errors = refused(&format!("{}{}", pod("a", ""), pod("a", "nodeSelector: {x: v}")));
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(
        errors[0]
            .starts_with("in.yaml, document 2, Pod/default/a: is written with other content in in.yaml, document 1"),
        "{errors:?}"
    );
}

#[test]
fn the_order_of_sources_and_documents_changes_nothing() {
    let texts =
        [crate::POOL.to_owned(), pod("a", ""), pod("b", "nodeSelector: {x: v}"), pod("c", "priorityClassName: none")];
    let read = |order: &[usize]| {
        let sources: Vec<Source> =
            order.iter().map(|at| Source { name: format!("{at}"), bytes: texts[*at].clone().into_bytes() }).collect();
        let captured = manifests::read(&sources, &Options::default()).expect("the texts are valid");
        format!("{:?}", captured)
    };
    let first = read(&[0, 1, 2, 3]);
    for order in [[3, 2, 1, 0], [1, 0, 3, 2], [2, 3, 0, 1]] {
        assert_eq!(read(&order), first);
    }
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
        let source = Source { name: "in.yaml".into(), bytes: bytes.to_vec() };
        let errors = manifests::read(&[source], &Options::default()).expect_err("the text is no manifest");
        let line = errors[0].to_string();
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
fn consecutive_json_values_are_parsed_in_linear_time() {
    // 20,000 pods of about 93 bytes: 1.9 MB. One pass over the text for each value would read 37
    // GB, most of a minute.
    let pods: String = (0..20_000)
        .map(|number| format!("{{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{{\"name\":\"p-{number}\"}},\"spec\":{{\"containers\":[{{\"name\":\"a\"}}]}}}}\n"))
        .collect();
    assert_eq!(input(&pods).pods.len(), 20_000);
    let errors = refused(&format!("{pods}{{\"kind\": }}\n{pods}"));
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].starts_with("in.yaml, document 20001: line 20001, column"), "{errors:?}");
}

#[test]
fn a_field_that_occurs_twice_is_an_error_in_json_too() {
    let errors = refused("{\"kind\": \"A\", \"apiVersion\": \"x/v1\",\n \"spec\": {\"b\": 1, \"b\": 2}}");
    assert!(errors[0].contains("line 2") && errors[0].contains("\"b\" occurs twice"), "{errors:?}");
}

#[test]
fn reading_ends_after_fifty_objects_without_a_kind() {
    for text in ["a: 1\n---\n", "{}\n", "{\"a\": 1}\n---\n"] {
        let errors = refused(&text.repeat(100_000));
        assert!(!errors.is_empty() && errors.len() <= 50, "{}", errors.len());
        assert!(!errors.iter().any(|error| error.contains("document 51")), "{:?}", errors.last());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_reading_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = manifests::read(&[Source { name: "x".into(), bytes }], &Options::default());
    }

    #[test]
    fn no_mutation_of_a_manifest_makes_reading_panic(at in 0_usize..4000, with in "[ -~\n]{0,6}", cut in 0_usize..6) {
        let text = format!("{}{}{}", crate::POOL, crate::workloads::STATEFUL, pod("a", "tolerations: [{operator: Exists}], topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}}]"));
        let at = at % text.len();
        let end = (at + cut).min(text.len());
        let mutated = format!("{}{with}{}", &text[..at], &text[end..]);
        let _ = manifests::read(&[Source { name: "x".into(), bytes: mutated.into_bytes() }], &Options::default());
    }
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
