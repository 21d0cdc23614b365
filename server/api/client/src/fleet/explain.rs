//! `fleetwright fleet explain`: why a listed pod or node is as it is.

use clap::Args;

use crate::remote::ServerFlags;
use crate::why::pod::PodFlags;
use crate::why::{self, NodeFlags, WhyCommand};
use api_messages::resource_names as names;
use command::exit::{Failure, Status};
use command::rows::Format;

/// Flags of `fleet explain`.
#[derive(Debug, Args)]
pub struct ExplainFlags {
    /// Resource name of a pod or node, as -o name prints it: clusters/prod/nodes/ip-10-0-0-1
    name: String,
    #[command(flatten)]
    server: ServerFlags,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub(super) fn run(flags: ExplainFlags) -> Result<Status, Failure> {
    why::run(question(flags)?)
}

fn question(flags: ExplainFlags) -> Result<WhyCommand, Failure> {
    let ExplainFlags { name, server, output } = flags;
    if let Ok((cluster, pod)) = names::parse_pod(&name) {
        let (cluster, namespace, pod) = (cluster.to_string(), pod.namespace.to_string(), pod.name.to_string());
        return Ok(WhyCommand::Pod(PodFlags { pod, namespace, cluster, server, output }));
    }
    let (cluster, node) = names::parse_child(&name, "nodes").map_err(|_| {
        Failure::refused(format!(
            "{name:?} is not the name of a pod or node: write clusters/CLUSTER/namespaces/NAMESPACE/pods/POD or \
             clusters/CLUSTER/nodes/NODE, as -o name prints them"
        ))
    })?;
    Ok(WhyCommand::Node(NodeFlags { node, cluster: cluster.to_string(), server, output }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(name: &str) -> Result<WhyCommand, Failure> {
        let (name, server) = (name.to_owned(), ServerFlags::default());
        question(ExplainFlags { name, server, output: Format::Table })
    }

    #[test]
    fn names_of_pods_and_nodes_are_explained_and_others_refused() {
        let pod = asked("clusters/prod/namespaces/shop/pods/web-1").unwrap();
        assert!(matches!(pod, WhyCommand::Pod(PodFlags { pod, namespace, cluster, .. })
            if (pod.as_str(), namespace.as_str(), cluster.as_str()) == ("web-1", "shop", "prod")));
        let node = asked("clusters/prod/nodes/ip-1").unwrap();
        assert!(matches!(node, WhyCommand::Node(NodeFlags { node, .. }) if node == "ip-1"));
        assert!(asked("clusters/prod/pools/default").unwrap_err().messages[0].contains("as -o name prints them"));
    }
}
