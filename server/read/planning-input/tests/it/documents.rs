//! Sources and documents: their forms, duplicates, order, and hostile bytes.

use manifests::Source;
use planning_input::Options;
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
        let captured = planning_input::read(&sources, &Options::default()).expect("the texts are valid");
        format!("{:?}", captured)
    };
    let first = read(&[0, 1, 2, 3]);
    for order in [[3, 2, 1, 0], [1, 0, 3, 2], [2, 3, 0, 1]] {
        assert_eq!(read(&order), first);
    }
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
        let _ = planning_input::read(&[Source { name: "x".into(), bytes }], &Options::default());
    }

    #[test]
    fn no_mutation_of_a_manifest_makes_reading_panic(at in 0_usize..4000, with in "[ -~\n]{0,6}", cut in 0_usize..6) {
        let text = format!("{}{}{}", crate::POOL, crate::workloads::STATEFUL, pod("a", "tolerations: [{operator: Exists}], topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}}]"));
        let at = at % text.len();
        let end = (at + cut).min(text.len());
        let mutated = format!("{}{with}{}", &text[..at], &text[end..]);
        let _ = planning_input::read(&[Source { name: "x".into(), bytes: mutated.into_bytes() }], &Options::default());
    }
}
