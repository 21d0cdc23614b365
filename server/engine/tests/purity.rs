//! The engine has no side effects: no runtime, no clock, no environment, no map with random order.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Crates with a runtime, network or storage, and name prefixes of whole families of such crates.
const BANNED_CRATES: [&str; 12] =
    ["tokio", "async-std", "smol", "futures", "tonic", "sqlx", "kube", "hyper", "reqwest", "rand", "chrono", "aws-"];

/// Words that only impure code uses. `FxHashMap` is allowed: its order does not depend on the
/// process, and the convention is to use it for lookups and never to iterate it.
const BANNED_WORDS: [&str; 13] = [
    "async fn",
    ".await",
    "Instant::now",
    "SystemTime",
    "std::time",
    "std::env",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "HashMap",
    "HashSet",
    "RandomState",
];

fn engine() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Names under `[dependencies]` of a manifest.
fn direct_dependencies(manifest: &str) -> Vec<String> {
    let section = manifest.lines().skip_while(|line| line.trim() != "[dependencies]").skip(1);
    let entries = section.take_while(|line| !line.starts_with('['));
    let name = |line: &str| Some(line.split(['.', '=', ' ']).next()?.trim().to_owned()).filter(|name| !name.is_empty());
    entries.filter_map(name).collect()
}

/// The dependencies of each package of a lock file.
fn locked(lock: &str) -> BTreeMap<String, Vec<String>> {
    let mut packages = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let name = package.lines().find_map(|line| line.strip_prefix("name = "));
        let dependencies = package.lines().filter_map(|line| line.trim().strip_prefix('"'));
        let first_word = |line: &str| line.split(['"', ' ']).next().unwrap_or_default().to_owned();
        let entry: &mut Vec<String> = packages.entry(name.unwrap_or_default().replace('"', "")).or_default();
        entry.extend(dependencies.map(first_word));
    }
    packages
}

fn closure(roots: Vec<String>, packages: &BTreeMap<String, Vec<String>>) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut queue = roots;
    while let Some(name) = queue.pop() {
        if reached.insert(name.clone()) {
            queue.extend(packages.get(&name).into_iter().flatten().cloned());
        }
    }
    reached
}

#[test]
fn the_engine_depends_on_no_runtime_network_or_storage_crate() {
    let manifest = engine().join("Cargo.toml");
    let lock = manifest.ancestors().map(|folder| folder.join("Cargo.lock")).find(|lock| lock.exists());
    let packages = locked(&read(&lock.expect("the workspace has a lock file")));
    let roots = direct_dependencies(&read(&manifest));
    let unknown: Vec<&String> = roots.iter().filter(|name| !packages.contains_key(*name)).collect();
    assert!(!roots.is_empty() && unknown.is_empty(), "the manifest names {roots:?}; the lock file lacks {unknown:?}");
    for name in closure(roots, &packages) {
        let banned = BANNED_CRATES.iter().find(|banned| match banned.strip_suffix('-') {
            Some(family) => name.starts_with(family),
            None => name == **banned || name.starts_with(&format!("{banned}-")),
        });
        assert!(banned.is_none(), "the engine depends on {name}");
    }
}

#[test]
fn the_sources_use_no_clock_no_environment_and_no_random_order() {
    let mut found = Vec::new();
    let mut folders = vec![engine().join("src")];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for path in entries.map(|entry| entry.expect("a readable folder").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files += 1;
                found.extend(impurities(&path));
            }
        }
    }
    assert!(files > 20, "only {files} sources were found");
    assert!(found.is_empty(), "{found:#?}");
}

/// Lines of code, without comments, that use a banned word, as `file:line: word`.
fn impurities(path: &Path) -> Vec<String> {
    let text = read(path);
    let code = (1..).zip(text.lines()).filter(|(_, line)| !line.trim_start().starts_with("//"));
    let words = code.flat_map(|(number, line)| {
        let banned = BANNED_WORDS.iter().filter(move |word| uses(line, word));
        banned.map(move |word| (number, *word))
    });
    words.map(|(number, word)| format!("{}:{number}: {word}", path.display())).collect()
}

/// Whether `word` occurs in `line` and is not the end of a longer name or, after a point, the
/// beginning of one.
fn uses(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let longer = |beside: char| beside.is_alphanumeric() || beside == '_';
        if word.starts_with('.') {
            !line[at + word.len()..].chars().next().is_some_and(longer)
        } else {
            !line[..at].chars().next_back().is_some_and(longer)
        }
    })
}

#[test]
fn impure_lines_are_distinguished_from_pure_ones() {
    assert!(uses("let map: HashMap<u32, u32> = x;", "HashMap") && !uses("FxHashMap::default()", "HashMap"));
    assert!(uses("value.await?", ".await") && !uses("self.awaited_plan(context)", ".await"));
    assert!(uses("value.await", ".await") && uses("std::time::Instant::now()", "Instant::now"));
    let packages = locked("[[package]]\nname = \"a\"\ndependencies = [\n \"b 1.0.0\",\n]\n[[package]]\nname = \"b\"\n");
    assert_eq!(closure(vec!["a".to_owned()], &packages), BTreeSet::from(["a".to_owned(), "b".to_owned()]));
    assert_eq!(direct_dependencies("[dependencies]\na.workspace = true\nb = \"1\"\n\n[x]\nc = 1\n"), ["a", "b"]);
}
