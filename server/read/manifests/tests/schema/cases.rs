//! Objects that an API server accepts, and objects that it rejects: the tables in
//! `tests/fixtures/crds`.
//!
//! A file in `accepted/` is a stream of objects; Karpenter's objects in the manifests of
//! `tests/fixtures` count among them. The first document of a file in `refused/` is an object that
//! is accepted; each further one is a merge patch (RFC 7386) on it. Comments at its head are
//! directives: `# message: …` is a part of the API server's message, `# when: changed` sends the
//! object as an update of the first one instead of as a new one, `# repeat: /pointer N` repeats the
//! first entry of the list or map there N times, and `# offline: …` is the reason why reading a
//! file does not reject the object.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

/// An object that an API server rejects.
#[derive(Debug, Clone)]
pub struct Refused {
    /// File and document, for messages.
    pub place: String,
    /// The accepted object that is patched.
    pub base: Value,
    pub object: Value,
    /// A part of the expected message.
    pub message: String,
    /// The object is rejected only as an update of `base`.
    pub when_changed: bool,
    /// The reason why reading a file does not reject it; empty when it does.
    pub offline: String,
}

/// Files of one folder, by name, with their documents.
fn documents(folder: &str) -> Vec<(String, Vec<String>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(FIXTURES).join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "yaml"));
    files.sort();
    let read = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(path).unwrap().split("\n---\n").map(str::to_owned).collect())
    };
    files.iter().map(read).collect()
}

/// Path of the tables, relative to the package that includes this file.
const FIXTURES: &str = super::FIXTURES;

fn parsed(document: &str) -> Value {
    let options = serde_saphyr::options! {};
    serde_saphyr::from_str_with_options(document, options).unwrap()
}

/// The value of the directive `# name: …` at the head of `document`.
fn directive(document: &str, name: &str) -> Option<String> {
    let head = document.lines().take_while(|line| line.starts_with('#'));
    head.filter_map(|line| line.strip_prefix("# ")?.strip_prefix(name)?.strip_prefix(": ")).map(str::to_owned).next()
}

/// `target` after the merge patch `patch`.
pub fn patched(target: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut fields = target.as_object().cloned().unwrap_or_default();
    for (key, value) in patch {
        match value {
            Value::Null => drop(fields.shift_remove(key)),
            value => drop(fields.insert(key.clone(), patched(fields.get(key).unwrap_or(&Value::Null), value))),
        }
    }
    Value::Object(fields)
}

/// `object` after the directive `repeat`: a pointer to a list or map, and its number of entries.
fn with_repeated_entry(mut object: Value, repeat: Option<&str>) -> Value {
    let Some((pointer, number)) = repeat.and_then(|repeat| repeat.split_once(' ')) else { return object };
    let number: usize = number.parse().unwrap();
    match object.pointer_mut(pointer) {
        Some(Value::Array(items)) => *items = vec![items[0].clone(); number],
        Some(Value::Object(entries)) => {
            let first = entries.values().next().unwrap().clone();
            *entries = (0..number).map(|at| (format!("key-{at}"), first.clone())).collect();
        }
        other => panic!("{pointer} is {other:?}, neither list nor map"),
    }
    object
}

/// Every accepted object, with its file.
pub fn accepted() -> Vec<(String, Value)> {
    const TODAYS: [&str; 3] = ["karpenter.sh/v1", "karpenter.sh/v1alpha1", "karpenter.k8s.aws/v1"];
    let files = documents("accepted").into_iter().chain(documents(".."));
    let objects = files
        .flat_map(|(file, documents)| documents.into_iter().map(move |document| (file.clone(), parsed(&document))));
    objects.filter(|(_, object)| TODAYS.iter().any(|version| object["apiVersion"] == *version)).collect()
}

pub fn refused() -> Vec<Refused> {
    documents("refused").iter().flat_map(|(file, documents)| refused_of(file, documents)).collect()
}

fn refused_of(file: &str, documents: &[String]) -> Vec<Refused> {
    let (first, patches) = documents.split_first().unwrap();
    let base = parsed(first);
    let case = |(number, document): (usize, &String)| Refused {
        place: format!("{file}, document {}", number + 2),
        object: with_repeated_entry(patched(&base, &parsed(document)), directive(document, "repeat").as_deref()),
        base: base.clone(),
        message: directive(document, "message")
            .unwrap_or_else(|| panic!("{file}, document {}: no message", number + 2)),
        when_changed: directive(document, "when").is_some_and(|when| when == "changed"),
        offline: directive(document, "offline").unwrap_or_default(),
    };
    patches.iter().enumerate().map(case).collect()
}
