//! User data of AL2023: a NodeConfig for nodeadm in a MIME document.

use std::net::IpAddr;

use model::{Effect, Labels, Taint};
use serde_json::{Map, Value, json};

use super::input::{UserDataError, UserDataInput};
use super::mime::{self, Part};
use super::{kubelet, labels, user_parts, yaml};

/// The MIME document: the parts of the user, then the NodeConfig of the node, which wins because it
/// is the last.
///
/// # Errors
/// [`UserDataError`] as [`render`](super::render).
pub(super) fn render(input: &UserDataInput) -> Result<String, UserDataError> {
    kubelet::check_cluster(input)?;
    let mut parts = user_parts::read(input.user_data.as_deref().unwrap_or_default())?;
    parts.push(Part::node_config(yaml::write(&node_config(input)?)));
    Ok(mime::write(&parts))
}

fn node_config(input: &UserDataInput) -> Result<Value, UserDataError> {
    let cluster = &input.cluster;
    let mut spec = json!({
        "cluster": {
            "name": &**input.cluster_name.as_text(),
            "apiServerEndpoint": &*cluster.endpoint,
            "certificateAuthority": &*cluster.certificate_authority,
            "cidr": service_cidr(input)?,
        },
        "kubelet": {
            "config": kubelet_config(input, &labels::node_taints(input)?),
            "flags": [labels_flag(&labels::node_labels(input)?)],
        },
    });
    if input.instance_store_raid0 {
        spec["instance"] = json!({ "localStorage": { "strategy": "RAID0" } });
    }
    Ok(json!({ "apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec }))
}

fn service_cidr(input: &UserDataInput) -> Result<&str, UserDataError> {
    let missing = UserDataError::Missing {
        field: "the service CIDR of the cluster",
        family: input.family.as_str(),
        remedy: "check that the agent may read it, set its cluster.service-cidr, or use another spec.amiFamily",
    };
    let cidr = input.cluster.service_cidr.as_deref().filter(|cidr| !cidr.is_empty()).ok_or(missing)?;
    let is_cidr = cidr.split_once('/').is_some_and(|(address, prefix)| {
        let bits = address.parse::<IpAddr>().map(|address| if address.is_ipv4() { 32_u8 } else { 128 });
        matches!((bits, prefix.parse::<u8>()), (Ok(bits), Ok(prefix)) if prefix <= bits)
    });
    let field = "the service CIDR of the cluster".to_owned();
    let allowed = "an address and the length of its prefix, such as 10.100.0.0/16";
    if is_cidr { Ok(cidr) } else { Err(UserDataError::Invalid { field, found: cidr.to_owned(), allowed }) }
}

/// `KubeletConfiguration`: what `spec.kubelet` sets, and taints.
fn kubelet_config(input: &UserDataInput, taints: &[Taint]) -> Value {
    let (settings, options) = (&input.kubelet, &input.kubelet_options);
    let mut config = Map::new();
    let mut set = |name: &str, value: Value| drop(config.insert(name.to_owned(), value));
    set("maxPods", json!(input.max_pods));
    set("registerWithTaints", taints.iter().map(taint).collect());
    let dns: Vec<String> = kubelet::cluster_dns(input).iter().map(IpAddr::to_string).collect();
    if !dns.is_empty() {
        set("clusterDNS", json!(dns));
    }
    let numbers = [
        ("podsPerCore", settings.pods_per_core),
        ("evictionMaxPodGracePeriod", options.eviction_max_pod_grace_period),
        ("imageGCHighThresholdPercent", options.image_gc_high_threshold_percent),
        ("imageGCLowThresholdPercent", options.image_gc_low_threshold_percent),
    ];
    for (name, number) in numbers.into_iter().filter_map(|(name, number)| Some((name, number?))) {
        set(name, json!(number));
    }
    let texts = [
        ("systemReserved", kubelet::amounts(&settings.system_reserved)),
        ("kubeReserved", kubelet::amounts(&settings.kube_reserved)),
        ("evictionHard", kubelet::hard_thresholds(input)),
        ("evictionSoft", kubelet::soft_thresholds(input)),
        ("evictionSoftGracePeriod", kubelet::grace_periods(input)),
    ];
    for (name, texts) in texts.into_iter().filter(|(_, texts)| !texts.is_empty()) {
        set(name, json!(texts));
    }
    if let Some(quota) = options.cpu_cfs_quota {
        set("cpuCFSQuota", json!(quota));
    }
    Value::Object(config)
}

fn taint(taint: &Taint) -> Value {
    let Taint { key, value, effect } = taint;
    let effect = Effect::as_str(*effect);
    if value.is_empty() {
        return json!({ "key": &**key, "effect": effect });
    }
    json!({ "key": &**key, "value": &**value, "effect": effect })
}

/// The flag with the labels. nodeadm passes it through an environment file, which needs the quotes.
fn labels_flag(labels: &Labels) -> String {
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("--node-labels=\"{}\"", labels.join(","))
}
