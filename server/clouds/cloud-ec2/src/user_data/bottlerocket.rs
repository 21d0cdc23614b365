//! User data of Bottlerocket: settings in TOML.

mod settings;

use model::Effect;
use toml::{Table, Value};

use super::input::{UserDataError, UserDataInput};
use super::kubelet::{self, Texts};
use super::labels;

const FAMILY: &str = "Bottlerocket";
/// The command that formats and mounts local disks. Commands run in the order of their names.
const MOUNT_COMMAND: &str = "000-mount-instance-storage";
/// What is kept on local disks, for versions whose command has no default.
const DIRECTORIES: [&str; 4] = ["--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"];

/// The settings of `spec.userData`, with those of the NodeClaim and its NodeClass above them.
///
/// # Errors
/// [`UserDataError`] as [`render`](super::render).
pub(super) fn render(input: &UserDataInput) -> Result<String, UserDataError> {
    kubelet::check_cluster(input)?;
    check_kubelet(input)?;
    let mut document = settings::parse(input.user_data.as_deref().unwrap_or_default())?;
    let all = settings::table(&mut document, "settings", "settings")?;
    let kubernetes = settings::table(all, "kubernetes", "settings.kubernetes")?;
    settings::check_types(kubernetes)?;
    set_cluster(kubernetes, input);
    set_kubelet(kubernetes, input);
    set_labels_and_taints(kubernetes, input)?;
    if input.instance_store_raid0 {
        let commands = settings::table(all, "bootstrap-commands", "settings.bootstrap-commands")?;
        commands.insert(MOUNT_COMMAND.to_owned(), Value::Table(mount_command(input.ami_version.as_deref())));
    }
    toml::to_string(&document).map_err(|error| UserDataError::Malformed { format: "TOML", problem: error.to_string() })
}

fn check_kubelet(input: &UserDataInput) -> Result<(), UserDataError> {
    if input.kubelet.pods_per_core.is_some() {
        return Err(UserDataError::UnsupportedField { field: "spec.kubelet.podsPerCore", family: FAMILY });
    }
    if input.kubelet_options.cluster_dns.len() > 1 {
        return Err(UserDataError::UnsupportedField { field: "spec.kubelet.clusterDNS[1]", family: FAMILY });
    }
    Ok(())
}

fn set(table: &mut Table, name: &str, value: impl Into<Value>) {
    table.insert(name.to_owned(), value.into());
}

fn set_cluster(kubernetes: &mut Table, input: &UserDataInput) {
    let cluster = &input.cluster;
    set(kubernetes, "cluster-name", &**input.cluster_name.as_text());
    set(kubernetes, "api-server", &*cluster.endpoint);
    set(kubernetes, "cluster-certificate", &*cluster.certificate_authority);
    if let Some(address) = kubelet::cluster_dns(input).first() {
        set(kubernetes, "cluster-dns-ip", address.to_string());
    }
}

fn set_kubelet(kubernetes: &mut Table, input: &UserDataInput) {
    let options = &input.kubelet_options;
    set(kubernetes, "max-pods", i64::from(input.max_pods));
    let texts = [
        ("system-reserved", kubelet::amounts(&input.kubelet.system_reserved)),
        ("kube-reserved", kubelet::amounts(&input.kubelet.kube_reserved)),
        ("eviction-hard", kubelet::hard_thresholds(input)),
        ("eviction-soft", kubelet::soft_thresholds(input)),
        ("eviction-soft-grace-period", kubelet::grace_periods(input)),
    ];
    for (name, texts) in texts.into_iter().filter(|(_, texts)| !texts.is_empty()) {
        set(kubernetes, name, table_of(texts));
    }
    if let Some(seconds) = options.eviction_max_pod_grace_period {
        set(kubernetes, "eviction-max-pod-grace-period", seconds);
    }
    if let Some(percent) = options.image_gc_high_threshold_percent {
        set(kubernetes, "image-gc-high-threshold-percent", percent.to_string());
    }
    if let Some(percent) = options.image_gc_low_threshold_percent {
        set(kubernetes, "image-gc-low-threshold-percent", percent.to_string());
    }
    if let Some(quota) = options.cpu_cfs_quota {
        set(kubernetes, "cpu-cfs-quota-enforced", quota);
    }
}

fn table_of(texts: Texts) -> Table {
    texts.into_iter().map(|(name, text)| (name, Value::String(text))).collect()
}

/// Labels are merged with the user's, taints replace them.
fn set_labels_and_taints(kubernetes: &mut Table, input: &UserDataInput) -> Result<(), UserDataError> {
    let own = settings::table(kubernetes, "node-labels", "settings.kubernetes.node-labels")?;
    for (key, value) in &labels::node_labels(input)? {
        set(own, key, &**value);
    }
    let mut taints = Table::new();
    for taint in labels::node_taints(input)? {
        let text = Value::String(format!("{}:{}", taint.value, Effect::as_str(taint.effect)));
        let of_key = taints.entry(taint.key.to_string()).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(values) = of_key {
            values.push(text);
        }
    }
    set(kubernetes, "node-taints", taints);
    Ok(())
}

fn mount_command(version: Option<&str>) -> Table {
    let command =
        |action: &str| vec!["apiclient", "ephemeral-storage", action].into_iter().map(str::to_owned).collect();
    let init: Vec<String> = command("init");
    let mut bind: Vec<String> = command("bind");
    if !version.is_some_and(has_default_directories) {
        bind.extend(DIRECTORIES.map(str::to_owned));
    }
    let mut table = Table::new();
    set(&mut table, "commands", vec![Value::from(init), Value::from(bind)]);
    set(&mut table, "essential", true);
    set(&mut table, "mode", "always");
    table
}

/// The first version of Bottlerocket whose `apiclient ephemeral-storage bind` needs no directories.
const DEFAULT_DIRECTORIES: (u32, u32, u32) = (1, 46, 0);

/// Whether the image has default directories for local disks. `image` is a version (`1.46.0`), an
/// alias (`bottlerocket@v1.46.0`) or the name of an image
/// (`bottlerocket-aws-k8s-1.33-x86_64-v1.46.0-0d8a6d1c`). An unknown version has none.
fn has_default_directories(image: &str) -> bool {
    image.rsplit(['@', '-']).find_map(parse_version).is_some_and(|version| version >= DEFAULT_DIRECTORIES)
}

fn parse_version(text: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = text.strip_prefix('v').unwrap_or(text).split('.').map(|number| number.parse().ok());
    let version = (numbers.next()??, numbers.next()??, numbers.next()??);
    numbers.next().is_none().then_some(version)
}
