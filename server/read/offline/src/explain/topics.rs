//! The topics of `fleetwright explain`, and answers to words that are no topic.

use std::fmt::Write;

use manifests::fields::TABLES;
use manifests::kinds::KINDS;

use server_settings::KEYS;
use settings::suggest::nearest;

/// Where words are documented that are no topic: the word, and the answer.
const ELSEWHERE: [(&str, &str); 6] = [
    (
        "agent",
        "its settings are flags and keys of another program: fleetwright-agent --help; the server's are at: fleetwright explain config",
    ),
    (
        "trust",
        "the file of tokens and certificates is that of the key auth.file: fleetwright explain config.auth; fleetwright trust check FILE checks one",
    ),
    ("token", "tokens are in the file of the key auth.file: fleetwright explain config.auth"),
    ("plan", "its flags are at: fleetwright plan --help"),
    ("server", "its settings are at: fleetwright explain config"),
    ("serve", "its settings are at: fleetwright explain config"),
];

/// All topics, one a line.
pub(super) fn all() -> String {
    let mut text = String::from("Topics of `fleetwright explain`:\n\n");
    for table in TABLES.iter() {
        let name = table.kind.to_ascii_lowercase();
        let short =
            if table.short_names.is_empty() { String::new() } else { format!(" ({})", table.short_names.join(", ")) };
        let _infallible = writeln!(text, "{name}{short}\n    {}", table.meaning);
    }
    text.push_str("config\n    Settings of `fleetwright serve`: TOML file, environment variables, flags.\n");
    text.push_str("\nA path names a field or key, such as nodepool.spec.disruption or config.listen.grpc.\n");
    text
}

/// The message for a path below `config` that is no key; `None` for other paths.
pub(super) fn nearest_key(path: &str) -> Option<String> {
    let wanted = path.strip_prefix("config.")?;
    let tables = KEYS.iter().filter_map(|key| key.path.split_once('.')).map(|(table, _)| table);
    let known = KEYS.iter().map(|key| key.path).chain(tables).map(str::to_owned);
    let hint = match nearest(wanted, known) {
        Some(near) => format!("did you mean config.{near}?"),
        None => "fleetwright explain config lists the keys".to_owned(),
    };
    Some(format!("there is no key {path}; {hint}"))
}

/// The message for a path whose first step is no topic and similar to none.
pub(super) fn elsewhere(path: &str) -> String {
    let word = path.split('.').next().unwrap_or(path).to_ascii_lowercase();
    let singular = word.strip_suffix('s').unwrap_or(&word);
    if let Some((_, answer)) = ELSEWHERE.iter().find(|(known, _)| *known == word || *known == singular) {
        return format!("{path} is no topic; {answer}");
    }
    let kubernetes = KINDS.iter().filter(|row| !row.group.starts_with("karpenter"));
    let mut names = kubernetes.map(|row| row.name.to_ascii_lowercase());
    if names.any(|name| name == word || name == singular) {
        return format!(
            "{path} is no topic; fields of Kubernetes' own kinds are documented by: kubectl explain {path}"
        );
    }
    let topics: Vec<String> = TABLES.iter().map(|table| table.kind.to_ascii_lowercase()).collect();
    format!("{path} is no topic; topics are {}, config", topics.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_topics_are_listed() {
        let text = all();
        for topic in ["nodepool (", "ec2nodeclass (", "nodeclaim", "nodeoverlay", "config\n"] {
            assert!(text.contains(topic), "{topic}\n{text}");
        }
    }

    #[test]
    fn a_misspelt_key_is_answered_with_the_nearest() {
        let message = |path: &str| nearest_key(path).unwrap();
        assert_eq!(
            message("config.listen.grcp"),
            "there is no key config.listen.grcp; did you mean config.listen.grpc?"
        );
        assert_eq!(
            message("config.zzzzzzzzzzzz"),
            "there is no key config.zzzzzzzzzzzz; fleetwright explain config lists the keys"
        );
        assert_eq!(nearest_key("nodepool.spec"), None);
    }

    #[test]
    fn words_that_are_no_topic_are_answered_with_a_place_or_the_topics() {
        assert!(elsewhere("agent").contains("fleetwright-agent --help"));
        assert!(elsewhere("trust").contains("config.auth"));
        assert!(elsewhere("pods.spec").ends_with("kubectl explain pods.spec"));
        assert!(elsewhere("xyzzy").contains("topics are nodepool"), "{}", elsewhere("xyzzy"));
    }
}
