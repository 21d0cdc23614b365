//! `kubectl fleetwright why`: the questions of `fleetwright why` about the cluster that kubectl talks to.
//!
//! kubectl runs a program on the search path whose name is `kubectl-fleetwright` (a link to this one) for the words that
//! follow `kubectl fleetwright`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, Parser, Subcommand};
use fleetwright_proto::v1;

use super::pod::PodFlags;
use super::{NodeFlags, WhyCommand};
use crate::remote::{ServerFlags, rpc_failure};
use command::exit::{Failure, Status, one_line};
use command::rows::Format;

/// Name of the program when kubectl runs it.
const PLUGIN: &str = "kubectl-fleetwright";

/// Ask Fleetwright about the cluster that kubectl talks to
///
/// The server and its token are those of the client file (~/.config/fleetwright/client.toml) or of the variables
/// FLEETWRIGHT_SERVER, FLEETWRIGHT_CA_FILE and FLEETWRIGHT_TOKEN_FILE.
#[derive(Debug, Parser)]
#[command(name = PLUGIN, bin_name = "kubectl fleetwright", version, arg_required_else_help = true)]
pub struct Plugin {
    #[command(subcommand)]
    command: PluginCommand,
}

#[derive(Debug, Subcommand)]
enum PluginCommand {
    /// Why a pod waits or where it runs, and why a node stays or went
    #[command(subcommand)]
    Why(WhySubcommand),
}

#[derive(Debug, Subcommand)]
enum WhySubcommand {
    /// Why a pod waits, or where it runs
    Pod {
        /// Name of the pod
        #[arg(value_name = "NAME")]
        pod: String,
        /// Namespace of the pod [default: that of the context]
        #[arg(short, long, value_name = "NAME")]
        namespace: Option<String>,
        #[command(flatten)]
        flags: CommonFlags,
    },
    /// Why a node is still there, or why it went
    Node {
        /// Name of the Node, or of its NodeClaim
        #[arg(value_name = "NAME")]
        node: String,
        #[command(flatten)]
        flags: CommonFlags,
    },
}

#[derive(Debug, Args)]
struct CommonFlags {
    #[command(flatten)]
    kubectl: KubectlFlags,
    #[command(flatten)]
    server: ServerFlags,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// Flags of kubectl that select the cluster.
#[derive(Debug, Args)]
struct KubectlFlags {
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The kubeconfig
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl Plugin {
    /// Whether kubectl runs this program, by the first word of its command line.
    #[must_use]
    pub fn is_run_as(program: &OsStr) -> bool {
        Path::new(program).file_stem() == Some(OsStr::new(PLUGIN))
    }

    /// Runs the command.
    ///
    /// # Errors
    /// What failed, and its remedy.
    pub fn run(self) -> Result<Status, Failure> {
        let PluginCommand::Why(why) = self.command;
        let command = match why {
            WhySubcommand::Pod { pod, namespace, flags: CommonFlags { kubectl, server, output } } => {
                let server = server.required()?;
                let cluster = kubectl.cluster(&server)?;
                let namespace = namespace.map_or_else(|| kubectl.namespace(), Ok)?;
                WhyCommand::Pod(PodFlags { pod, namespace, cluster, server, output })
            }
            WhySubcommand::Node { node, flags: CommonFlags { kubectl, server, output } } => {
                let server = server.required()?;
                let cluster = kubectl.cluster(&server)?;
                WhyCommand::Node(NodeFlags { node, cluster, server, output })
            }
        };
        super::run(command)
    }
}

impl KubectlFlags {
    /// Name of the cluster at the server, found by the UID of the namespace kube-system.
    fn cluster(&self, server: &ServerFlags) -> Result<String, Failure> {
        let uid = self.output(&["get", "namespace", "kube-system", "--output=jsonpath={.metadata.uid}"])?;
        if uid.is_empty() || !uid.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return Err(Failure::internal(format!("kubectl printed {uid:?} as UID of the namespace kube-system")));
        }
        let request =
            v1::ListClustersRequest { filter: format!("uid = \"{uid}\""), ..v1::ListClustersRequest::default() };
        let found = server
            .ask(async |mut client| Ok(client.list_clusters(request).await.map_err(rpc_failure)?.into_inner()))?;
        let cluster = found.clusters.first().ok_or_else(|| {
            Failure::refused(format!(
                "the server knows no cluster whose namespace kube-system has the UID {uid}; see fleetwright fleet clusters, and \
                 whether the agent of this cluster runs"
            ))
        })?;
        Ok(cluster.name.trim_start_matches("clusters/").to_owned())
    }

    /// The namespace of the context.
    fn namespace(&self) -> Result<String, Failure> {
        let namespace = self.output(&["config", "view", "--minify", "--output=jsonpath={..namespace}"])?;
        Ok(if namespace.is_empty() { "default".to_owned() } else { namespace })
    }

    fn output(&self, words: &[&str]) -> Result<String, Failure> {
        let mut command = Command::new("kubectl");
        command.args(self.kubeconfig.iter().flat_map(|file| [OsStr::new("--kubeconfig"), file.as_os_str()]));
        command.args(self.context.iter().flat_map(|context| ["--context", context]));
        let output = command.args(words).output().map_err(|error| {
            Failure::internal(format!("kubectl cannot be run: {error}; it has to be on the search path (PATH)"))
        })?;
        if !output.status.success() {
            let why = one_line(&String::from_utf8_lossy(&output.stderr));
            return Err(Failure::internal(format!("kubectl {} failed: {why}", words.join(" "))));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_a_plugin_by_its_name() {
        assert!(Plugin::is_run_as(OsStr::new("/usr/local/bin/kubectl-fleetwright")));
        assert!(!Plugin::is_run_as(OsStr::new("/usr/local/bin/fleetwright")));
    }

    #[test]
    fn flags_of_kubectl_select_the_cluster() {
        let words = [PLUGIN, "why", "pod", "web-1", "-n", "shop", "--context", "prod", "-o", "json"];
        let PluginCommand::Why(WhySubcommand::Pod { pod, namespace, flags }) =
            Plugin::try_parse_from(words).unwrap().command
        else {
            panic!("a question about a pod")
        };
        assert_eq!((pod.as_str(), namespace.as_deref()), ("web-1", Some("shop")));
        assert_eq!(flags.kubectl.context.as_deref(), Some("prod"));
        assert_eq!(flags.output, Format::Json);
    }
}
