//! Replicas of workloads that state none and that a HorizontalPodAutoscaler scales.

use manifests::cluster::Cluster;
use manifests::cluster::workload::{PodAutoscaler, Workload};
use manifests::nearest_step;
use manifests::notes::Notes;

use crate::options::AutoscaledReplicas;

/// Sets the replicas of the workloads that state none. Of several autoscalers of one workload, the
/// highest number counts.
pub fn set_replicas(cluster: &mut Cluster, replicas: AutoscaledReplicas, notes: &mut Notes) {
    let Cluster { workloads, autoscalers, .. } = cluster;
    for workload in workloads.iter_mut().filter(|workload| !workload.states_replicas && workload.job.is_none()) {
        let number = |one: &PodAutoscaler| match replicas {
            AutoscaledReplicas::Min => one.min_replicas,
            AutoscaledReplicas::Max => one.max_replicas,
        };
        let Some(highest) = autoscalers.iter().filter(|one| scales(one, workload)).max_by_key(|one| number(one)) else {
            continue;
        };
        workload.replicas = number(highest);
        let what = match replicas {
            AutoscaledReplicas::Min => "minReplicas of a HorizontalPodAutoscaler is planned (--hpa max: maxReplicas)",
            AutoscaledReplicas::Max => "maxReplicas of a HorizontalPodAutoscaler is planned (--hpa min: minReplicas)",
        };
        let (least, most) = (highest.min_replicas, highest.max_replicas);
        notes.add(what, &format!("{} has {} ({least} to {most})", title(workload), workload.replicas));
    }
    for autoscaler in autoscalers.iter().filter(|one| !workloads.iter().any(|workload| scales(one, workload))) {
        notes.add(
            "a HorizontalPodAutoscaler scales a workload that is not in the input",
            &missing(autoscaler, workloads),
        );
    }
}

fn scales(autoscaler: &PodAutoscaler, workload: &Workload) -> bool {
    *autoscaler.target_kind == *workload.kind_name
        && autoscaler.target_name == workload.meta.name
        && autoscaler.namespace == workload.meta.namespace
}

fn title(workload: &Workload) -> String {
    format!("{}/{}/{}", workload.kind_name, workload.meta.namespace, workload.meta.name)
}

/// The autoscaler, its target, and the workload of the namespace with the most similar name.
fn missing(autoscaler: &PodAutoscaler, workloads: &[Workload]) -> String {
    let PodAutoscaler { namespace, name, target_kind, target_name, .. } = autoscaler;
    let near = workloads.iter().filter(|workload| {
        workload.meta.namespace == *namespace && *workload.kind_name == **target_kind && !workload.states_replicas
    });
    let names: Vec<&str> = near.map(|workload| &*workload.meta.name).collect();
    let hint = nearest_step(target_name, &names).map_or_else(String::new, |near| format!(", did you mean {near}?"));
    format!("{namespace}/{name} ({target_kind} {target_name}{hint})")
}
