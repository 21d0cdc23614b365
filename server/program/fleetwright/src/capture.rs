//! `fleetwright capture`: reads the objects that a plan needs from an API server, and prints them as
//! one List.

mod connect;
mod discovery;
mod objects;

use std::io::{self, Write};
use std::path::PathBuf;

use agent_kubernetes::api::Api;
use agent_kubernetes::error::{ApiError, ErrorKind};
use clap::Args;
use command::exit::{Failure, Status};
use command::output;
use serde_json::Value;

use discovery::{Discovery, Listable};

/// Read what `plan` needs from a cluster
///
/// Prints a List for `fleetwright plan -f -`. Kinds that the cluster does not have are left out. The environment variables,
/// commands and arguments of containers are left out too: no plan needs them, and they may have secrets.
#[derive(Debug, Args)]
pub(crate) struct CaptureFlags {
    /// Context of the kubeconfig [default: its current context]
    #[arg(long)]
    context: Option<String>,
    /// Kubeconfig [default: KUBECONFIG, or ~/.kube/config, or the service account of this pod]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Kinds to leave out, such as those that you are not allowed to list
    #[arg(long, value_delimiter = ',', value_name = "KIND")]
    skip: Vec<String>,
}

/// The objects of one kind.
struct CapturedKind {
    plural: String,
    objects: Vec<Value>,
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy. Nothing is printed then.
pub(crate) fn run(flags: &CaptureFlags) -> Result<Status, Failure> {
    let skipped = discovery::skipped_kinds(&flags.skip).map_err(Failure::refused)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
    let (captured, absent) = runtime.block_on(async {
        let api = connect::connect(flags.kubeconfig.as_deref(), flags.context.as_deref()).await?;
        let discovery = Discovery::read(&api, &skipped).await.map_err(|error| failure(&error))?;
        Ok::<_, Failure>((read_all(&api, &discovery.listable).await?, discovery.absent))
    })?;
    output::print(|out| write_list(&captured, out))?;
    eprintln!("captured {}", summary(&captured));
    if !absent.is_empty() {
        eprintln!("the cluster does not have {}{}", absent.join(", "), remedy(&absent));
    }
    Ok(Status::Done)
}

/// Reads the objects of every kind, one kind after the other. Pods come before Nodes: a pod that is
/// bound in between is pending, and not bound to a Node that is missing.
async fn read_all(api: &Api, listable: &[Listable]) -> Result<Vec<CapturedKind>, Failure> {
    let mut captured = Vec::new();
    let mut forbidden = Vec::new();
    for kind in listable {
        match objects::list(api, kind).await {
            Ok(objects) => captured.push(CapturedKind { plural: kind.plural.clone(), objects }),
            Err(error) if error.kind == ErrorKind::Forbidden => forbidden.push(kind.plural.as_str()),
            Err(error) => return Err(failure(&error)),
        }
    }
    if forbidden.is_empty() {
        return Ok(captured);
    }
    let plurals = forbidden.join(",");
    Err(Failure::refused(format!(
        "not allowed to list {}; use credentials with the verb list on them in all namespaces, or leave them out by --skip {plurals}, \
         which changes the plan",
        forbidden.join(", ")
    )))
}

fn failure(error: &ApiError) -> Failure {
    let message = format!("{}: {}", error.operation, error.message);
    match error.kind {
        ErrorKind::Unauthorized => {
            Failure::refused(format!("{message}; the API server does not accept the credentials of the kubeconfig"))
        }
        ErrorKind::Forbidden => Failure::refused(message),
        _ => Failure::internal(message),
    }
}

/// Numbers of objects, for standard error.
fn summary(captured: &[CapturedKind]) -> String {
    let numbers = captured.iter().filter(|kind| !kind.objects.is_empty());
    numbers.map(|kind| format!("{} {}", kind.objects.len(), kind.plural)).collect::<Vec<_>>().join(", ")
}

/// What to do about kinds that are absent: a plan needs a NodePool.
fn remedy(absent: &[String]) -> &'static str {
    if absent.iter().any(|plural| plural == "nodepools.karpenter.sh") {
        "; pass a NodePool and its EC2NodeClass to plan by one more -f"
    } else {
        ""
    }
}

/// Writes a List with one line for each object.
fn write_list(captured: &[CapturedKind], out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[")?;
    let mut separator = "\n";
    for object in captured.iter().flat_map(|kind| &kind.objects) {
        out.write_all(separator.as_bytes())?;
        serde_json::to_writer(&mut *out, object)?;
        separator = ",\n";
    }
    out.write_all(b"\n]}\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(plural: &str, objects: Vec<Value>) -> CapturedKind {
        CapturedKind { plural: plural.to_owned(), objects }
    }

    #[test]
    fn a_capture_is_a_list_with_a_line_for_each_object() {
        let captured = [
            kind("pods", vec![json!({ "kind": "Pod" }), json!({ "kind": "Pod" })]),
            kind("nodes", Vec::new()),
            kind("namespaces", vec![json!({ "kind": "Namespace" })]),
        ];
        let mut text = Vec::new();
        write_list(&captured, &mut text).expect("a vector takes everything");
        let expected = "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n{\"kind\":\"Pod\"},\n{\"kind\":\"Pod\"},\n\
                        {\"kind\":\"Namespace\"}\n]}\n";
        assert_eq!(String::from_utf8_lossy(&text), expected);
        assert_eq!(summary(&captured), "2 pods, 1 namespaces");
    }

    #[test]
    fn a_cluster_without_karpenter_requires_a_pool_from_elsewhere() {
        let absent = |plural: &str| vec![plural.to_owned()];
        assert!(remedy(&absent("nodepools.karpenter.sh")).contains("one more -f"));
        assert_eq!(remedy(&absent("nodeoverlays.karpenter.sh")), "");
    }
}
