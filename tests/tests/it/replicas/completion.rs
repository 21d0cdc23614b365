//! Completion by a shell, with names of clusters from a server, and manual pages.

use std::os::unix::fs::symlink;

use e2e::{Program, TempDir};

use super::FOR_EVER;
use super::fleet_api::two_clusters;
use crate::{PROGRAM, TIMEOUT, fleetwright, simulator};

/// What bash offers for the last of `words`, as its own completion does.
fn offered(folder: &TempDir, server: &str, words: &[&str]) -> Vec<String> {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let (last, index) = (&quoted[quoted.len() - 1], quoted.len() - 1);
    let script = format!(
        "source <(fleetwright completion bash); COMP_WORDS=({}); COMP_CWORD={index}; COMP_TYPE=9; \
         _clap_complete_fleetwright fleetwright {last}; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        quoted.join(" ")
    );
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    let bash = Program::new("bash", &["-c", &script]).env("PATH", &path).env("FLEETWRIGHT_SERVER", server);
    let ended = bash.run(TIMEOUT);
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{}", ended.stdout);
    ended.stdout.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_flags_and_names_of_clusters() {
    let test = "bash_completes_commands_flags_and_names_of_clusters";
    let Some((environment, agents)) = two_clusters(test, FOR_EVER) else { return };
    let folder = TempDir::new();
    symlink(PROGRAM, folder.path().join("fleetwright")).expect("a link");
    let server = format!("http://{}", environment.second.grpc);
    assert_eq!(offered(&folder, &server, &["fleetwright", "quo"]), ["quote"]);
    assert_eq!(offered(&folder, &server, &["fleetwright", "why", "pod", "web", "--clu"]), ["--cluster"]);
    assert_eq!(offered(&folder, &server, &["fleetwright", "why", "node", "n", "--cluster", ""]), ["bank", "shop"]);
    assert_eq!(offered(&folder, &server, &["fleetwright", "forget", "s"]), ["shop"]);
    // Without a server there is no name, and no message in the line that the user types.
    let nowhere = "http://127.0.0.1:1";
    assert_eq!(offered(&folder, nowhere, &["fleetwright", "forget", "s"]), [] as [&str; 0]);
    drop(agents);
}

#[test]
fn each_shell_has_a_script_and_each_command_a_manual_page() {
    for shell in ["bash", "zsh", "fish"] {
        let script = fleetwright(&["completion", shell]);
        assert_eq!(script.status, 0, "{}", script.stderr);
        assert!(script.stdout.contains("FLEETWRIGHT_COMPLETE"), "{shell}: {}", script.stdout);
    }
    let folder = TempDir::new();
    let written = fleetwright(&["man", &folder.path().join("man1").display().to_string()]);
    assert_eq!(written.status, 0, "{}", written.stderr);
    for (page, words) in [("fleetwright.1", "Central autoscaler"), ("fleetwright-why-pod.1", "Why a pod waits")] {
        let text = std::fs::read_to_string(folder.path().join("man1").join(page)).expect("a page");
        assert!(text.contains(words), "{page}: {text}");
    }
    assert!(simulator(&["completion", "bash"]).stdout.contains("fleetwright-sim"));
}
