//! The crates that decide have no side effects: no clock, no environment, no map with random order.
//! That they have no runtime either is a matter of their dependencies, which an end-to-end test
//! checks for all crates.

use std::fs;
use std::path::{Path, PathBuf};

/// What decides: every crate of the first folder, and single crates of others.
const DECIDE: &str = "decide";
const OTHERS: [&str; 3] = ["read/cluster", "run/api-budget", "run/controller"];

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

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_sources_use_no_clock_no_environment_and_no_random_order() {
    let mut found = Vec::new();
    let server =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate is two folders below server");
    let entries = fs::read_dir(server.join(DECIDE)).expect("the folder of crates that decide");
    let crates = entries.map(|entry| entry.expect("a readable folder").path()).filter(|path| path.is_dir());
    let crates = crates.chain(OTHERS.iter().map(|name| server.join(name)));
    let mut folders: Vec<PathBuf> = crates.map(|folder| folder.join("src")).collect();
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
    assert!(files > 150, "only {files} sources were found");
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
}
