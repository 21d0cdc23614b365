//! Typical mistakes in flags, settings and trust files: each message names what is wrong and what to
//! write. Mistakes in manifests are scenarios of `server/read/planning-input/tests/scenarios/cases/mistakes`.
//!
//! A case is a file: `$ ` and the command, `status: ` and the exit status, `says: ` and a part of
//! standard error, once or more, and the files of the command, each behind `--- ` and its name.

use std::fs;
use std::path::{Path, PathBuf};

use e2e::{Program, TempDir};

use crate::{PROGRAM, TIMEOUT};

const AGENT: &str = env!("CARGO_BIN_EXE_fleetwright-e2e-agent");

/// A command, what it is given, and what it must answer.
struct Case {
    command: Vec<String>,
    status: i32,
    says: Vec<String>,
    files: Vec<(String, String)>,
}

impl Case {
    fn parse(text: &str) -> Self {
        let mut parts = text.split("\n--- ");
        let head = parts.next().unwrap_or_default();
        let values = |prefix: &str| -> Vec<String> {
            head.lines().filter_map(|line| Some(line.strip_prefix(prefix)?.to_owned())).collect()
        };
        let files = parts.map(|part| part.split_once('\n').unwrap_or((part, "")));
        Self {
            command: values("$ ").concat().split(' ').map(str::to_owned).collect(),
            status: values("status: ").concat().parse().expect("a status"),
            says: values("says: "),
            files: files.map(|(name, content)| (name.to_owned(), content.to_owned())).collect(),
        }
    }

    fn run(&self) -> Option<String> {
        let folder = TempDir::new();
        for (name, content) in &self.files {
            let _path = folder.write_file(name, content);
        }
        let (program, arguments) = self.command.split_first().expect("a command");
        let (assignments, program, arguments) = match program.split_once('=') {
            Some(assignment) => {
                let (program, arguments) = arguments.split_first().expect("a program");
                (vec![assignment], program, arguments)
            }
            None => (Vec::new(), program, arguments),
        };
        let path = if program == "fleetwright-agent" { AGENT } else { PROGRAM };
        let folder_path = folder.path().display().to_string();
        let in_folder: Vec<String> = arguments.iter().map(|word| word.replace("{}", &folder_path)).collect();
        let in_folder: Vec<&str> = in_folder.iter().map(String::as_str).collect();
        let program =
            assignments.into_iter().fold(Program::new(path, &in_folder), |run, (name, value)| run.env(name, value));
        let ended = program.run(TIMEOUT);
        let missing: Vec<&String> = self.says.iter().filter(|part| !ended.stderr.contains(part.as_str())).collect();
        let is_met = ended.status == self.status && missing.is_empty();
        (!is_met).then(|| format!("{:?}: status {}, lacks {missing:?}\n{}", self.command, ended.status, ended.stderr))
    }
}

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/mistakes");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).expect("cases").flatten().map(|entry| entry.path()).collect();
    files.sort();
    files
}

#[test]
fn each_mistake_is_answered_with_what_is_wrong_and_what_to_write() {
    let files = cases();
    assert!(files.len() >= 37, "{} cases", files.len());
    let failures = files.iter().filter_map(|file| {
        let case = Case::parse(&fs::read_to_string(file).expect("a case"));
        assert!(!case.says.is_empty(), "{} expects no message", file.display());
        Some(format!("{}: {}", file.display(), case.run()?))
    });
    let failures: Vec<String> = failures.collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
