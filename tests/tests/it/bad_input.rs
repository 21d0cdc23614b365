//! Invalid input: a clear message, exit status 2, no panic, and bounded memory.

use e2e::{ExitResult, Program, TempDir};

use crate::{PROGRAM, TIMEOUT, fleetwright};

/// Address space in KiB while 100 MB are rejected: ten times the input.
const ADDRESS_SPACE_KIB: u64 = 1024 * 1024;

/// Size of the invalid input, in bytes.
const GARBAGE_BYTES: usize = 100_000_000;

fn plan(content: impl AsRef<[u8]>) -> (ExitResult, String) {
    let folder = TempDir::new();
    let path = folder.write_file("input.yaml", content);
    (fleetwright(&["plan", "-f", &path]), path)
}

/// Asserts that `plan` rejects `content` with one line that contains all of `words` and the file
/// name.
fn refused(content: &str, words: &[&str]) {
    let (ended, path) = plan(content);
    assert_eq!(ended.status, 2, "{content}\n{}", ended.stderr);
    assert_eq!(ended.stdout, "");
    let line = ended.stderr.lines().next().unwrap_or_default();
    assert!(line.starts_with("error: ") && line.contains(&path), "{line}");
    for word in words {
        assert!(line.contains(word), "{word:?} is missing in: {line}");
    }
}

fn pod_with(spec: &str) -> String {
    format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: web, namespace: shop}}\nspec: {spec}\n")
}

#[test]
fn truncated_yaml() {
    refused("apiVersion: v1\nkind: Pod\nmetadata: {name: web\n", &["document 1"]);
}

#[test]
fn a_field_of_the_wrong_type() {
    let spec = "{containers: [{name: a, image: x, resources: {requests: {cpu: [1]}}}]}";
    refused(&pod_with(spec), &["Pod/shop/web", "spec.containers[0].resources.requests"]);
    refused(&pod_with("{containers: 3}"), &["Pod/shop/web", "spec.containers"]);
}

#[test]
fn a_negative_quantity() {
    let spec = "{containers: [{name: a, image: x, resources: {requests: {cpu: \"-1\"}}}]}";
    refused(&pod_with(spec), &["Pod/shop/web", "cpu", "-1"]);
}

#[test]
fn an_unknown_operator() {
    let term = "{matchExpressions: [{key: a, operator: Near, values: [b]}]}";
    let affinity = format!(
        "{{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{term}]}}}}}}"
    );
    let spec = format!("{{containers: [{{name: a, image: x}}], affinity: {affinity}}}");
    refused(&pod_with(&spec), &["Pod/shop/web", "operator", "Near"]);
}

#[test]
fn two_different_objects_of_one_name() {
    let twice = format!(
        "{}---\n{}",
        pod_with("{containers: [{name: a, image: x}]}"),
        pod_with("{containers: [{name: b, image: x}], priority: 7}")
    );
    refused(&twice, &["Pod/shop/web"]);
}

#[test]
fn an_address() {
    let ended = fleetwright(&["plan", "-f", "https://example.com/pool.yaml"]);
    assert_eq!(ended.status, 2);
    assert!(ended.stderr.contains("download it first, or pipe it: curl"), "{}", ended.stderr);
}

#[test]
fn a_missing_file() {
    let ended = fleetwright(&["plan", "-f", "/nowhere/at/all.yaml"]);
    assert_eq!(ended.status, 2);
    assert!(ended.stderr.starts_with("error: cannot read /nowhere/at/all.yaml: "), "{}", ended.stderr);
}

#[test]
fn an_empty_folder() {
    let folder = TempDir::new();
    let ended = fleetwright(&["plan", "-f", &folder.path().display().to_string()]);
    assert_eq!(ended.status, 2);
    assert!(ended.stderr.contains("no *.yaml, *.yml or *.json file"), "{}", ended.stderr);
}

/// Asserts that `plan` rejects `content` within [`ADDRESS_SPACE_KIB`], with one message.
fn refused_in_bounded_memory(name: &str, content: impl AsRef<[u8]>) {
    let folder = TempDir::new();
    let path = folder.write_file(name, content);
    let ended = Program::in_memory(PROGRAM, ADDRESS_SPACE_KIB, &["plan", "-f", &path]).run(TIMEOUT);
    let message: String = ended.stderr.chars().take(500).collect();
    assert_eq!(ended.status, 2, "{name}: {message}");
    assert!(message.starts_with("error: ") && ended.stderr.len() < 100_000, "{name}: {message}");
}

#[test]
fn anchors_that_explode() {
    // Nine levels of nine references each: 9^9 = 387,420,489 leaves.
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let references = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{references}]\n"));
    }
    refused_in_bounded_memory("bomb.yaml", format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: x}}\n{bomb}"));
}

#[test]
fn a_hundred_megabytes_of_noise() {
    // A linear congruential generator (Knuth's MMIX constants): the same bytes on every machine.
    let mut state: u64 = 1;
    let noise: Vec<u8> = (0..GARBAGE_BYTES)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()[0]
        })
        .collect();
    refused_in_bounded_memory("noise.yaml", &noise);
    refused_in_bounded_memory("noise.json", &noise);
}

#[test]
fn a_hundred_megabytes_of_opening_brackets() {
    refused_in_bounded_memory("brackets.yaml", vec![b'['; GARBAGE_BYTES]);
    refused_in_bounded_memory("brackets.json", vec![b'['; GARBAGE_BYTES]);
}

#[test]
fn a_hundred_megabytes_of_text() {
    refused_in_bounded_memory("text.yaml", "lorem ipsum dolor sit amet\n".repeat(GARBAGE_BYTES / 27));
}
