//! Names of clusters, as a shell completes them.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap::Parser;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use fleetwright_proto::v1;

use super::remote::{ServerFlags, rpc_failure};
use command::exit::Failure;

/// Longest time that a user waits after a press of the tabulator key.
const TIMEOUT: Duration = Duration::from_millis(1_500);

/// Greatest number of names that are offered.
const MAX_NAMES: i32 = 1_000;

/// Completes the name of a cluster by those that the server knows. Without an answer, nothing is offered: a message would
/// be printed into the line that the user types.
pub fn completer() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let Some(typed) = typed.to_str() else { return Vec::new() };
        let names = known().unwrap_or_default();
        let offered = names.into_iter().filter(|name| name.starts_with(typed) && is_one_word(name));
        offered.map(CompletionCandidate::new).collect()
    })
}

/// Whether a shell takes the name as it is: agents choose the names of clusters, and others could become commands.
fn is_one_word(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// Names of the clusters of the server that the variables or the client file name.
fn known() -> Result<Vec<String>, Failure> {
    #[derive(Parser)]
    struct Variables {
        #[command(flatten)]
        server: ServerFlags,
    }
    let variables = Variables::try_parse_from([OsString::new()]).map_err(Failure::refused)?;
    variables.server.ask(async |mut client| {
        let request = v1::ListClustersRequest { page_size: MAX_NAMES, ..v1::ListClustersRequest::default() };
        let answer = tokio::time::timeout(TIMEOUT, client.list_clusters(request)).await;
        let answer = answer.map_err(Failure::internal)?.map_err(rpc_failure)?.into_inner();
        let id = |cluster: v1::Cluster| cluster.name.trim_start_matches("clusters/").to_owned();
        Ok(answer.clusters.into_iter().map(id).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_are_one_word_of_a_shell_are_offered() {
        assert!(is_one_word("prod-1.eu_west"));
        for name in ["$(reboot)", "a b", "a;b", "`a`", "a\u{1b}[2J", "a/b"] {
            assert!(!is_one_word(name), "{name:?}");
        }
    }
}
