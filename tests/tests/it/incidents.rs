//! Every file and test named in `tests/INCIDENTS.md` exists.

use std::fs;
use std::path::{Path, PathBuf};

/// Every Rust source of the project, one after the other.
fn sources(root: &Path) -> String {
    let mut folders: Vec<PathBuf> = ["server", "agent", "tests"].map(|name| root.join(name)).to_vec();
    let mut text = String::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the project").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text.push_str(&fs::read_to_string(&path).expect("a source"));
            }
        }
    }
    text
}

#[test]
fn every_test_file_and_invariant_that_the_table_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are a folder of the project");
    let table = fs::read_to_string(root.join("tests/INCIDENTS.md")).expect("the table");
    let invariants = fs::read_to_string(root.join("server/simulate/simulation/src/deterministic/README.md"))
        .expect("the invariants");
    let sources = sources(root);
    let rows: Vec<Vec<&str>> =
        table.lines().filter(|line| line.starts_with("| I")).map(|line| line.split('|').collect()).collect();
    let numbers: Vec<String> = rows.iter().map(|row| row[1].trim().to_owned()).collect();
    assert_eq!(numbers, (1..=17).map(|number| format!("I{number}")).collect::<Vec<_>>());
    let missing = |cell: &&str, shows: bool| {
        let quoted = cell.split('`').skip(1).step_by(2).map(str::to_owned);
        let there = |name: &String| match name {
            path if path.contains('/') => root.join(path).exists(),
            invariant if invariant.starts_with(char::is_uppercase) => {
                invariants.contains(&format!("| `{invariant}` |"))
            }
            test if shows => sources.contains(&format!("fn {test}(")),
            _ => true,
        };
        quoted.filter(|name| !there(name)).collect::<Vec<_>>()
    };
    let missing: Vec<String> =
        rows.iter().flat_map(|row| [missing(&row[3], false), missing(&row[4], true)].concat()).collect();
    assert_eq!(missing, Vec::<String>::new());
}
