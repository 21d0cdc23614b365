//! `spec.kubelet` (Karpenter AWS: kubelet configuration).

use model::node_class::{AmiFamily, KubeletOptions, KubeletSettings};
use model::{Resources, Text};

const SIGNALS: [&str; 6] = [
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
];
const RESERVED: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];

/// The first value that no kubelet accepts.
pub(super) fn invalid(settings: &KubeletSettings, options: &KubeletOptions) -> Option<String> {
    negative(settings, options)
        .or_else(|| reserved("kubeReserved", &settings.kube_reserved))
        .or_else(|| reserved("systemReserved", &settings.system_reserved))
        .or_else(|| signals("evictionHard", settings.eviction_hard.keys()))
        .or_else(|| signals("evictionSoft", options.eviction_soft.keys()))
        .or_else(|| image_gc(options))
}

fn negative(settings: &KubeletSettings, options: &KubeletOptions) -> Option<String> {
    let fields = [
        ("maxPods", settings.max_pods),
        ("podsPerCore", settings.pods_per_core),
        ("evictionMaxPodGracePeriod", options.eviction_max_pod_grace_period),
    ];
    let (field, value) = fields.into_iter().find(|(_, value)| value.is_some_and(|value| value < 0))?;
    Some(format!("spec.kubelet.{field}: found {}, allowed: 0 or more", value?))
}

fn reserved(field: &str, amounts: &Resources) -> Option<String> {
    let wrong = |(name, amount): &(&Text, i64)| !RESERVED.contains(&name.as_ref()) || *amount < 0;
    let (name, _) = amounts.iter().find(wrong)?;
    let allowed = RESERVED.join(", ");
    Some(format!("spec.kubelet.{field}: found {name}, allowed: amounts of 0 or more of {allowed}"))
}

fn signals<'t>(field: &str, mut names: impl Iterator<Item = &'t Text>) -> Option<String> {
    let unknown = names.find(|name| !SIGNALS.contains(&name.as_ref()))?;
    Some(format!("spec.kubelet.{field}: found {unknown}, allowed: {}", SIGNALS.join(", ")))
}

fn image_gc(options: &KubeletOptions) -> Option<String> {
    let (high, low) = (options.image_gc_high_threshold_percent, options.image_gc_low_threshold_percent);
    let fields = [("imageGCHighThresholdPercent", high), ("imageGCLowThresholdPercent", low)];
    let outside = |(_, value): &(&str, Option<i64>)| value.is_some_and(|value| !(0..=100).contains(&value));
    if let Some((field, Some(value))) = fields.into_iter().find(outside) {
        return Some(format!("spec.kubelet.{field}: found {value}, allowed: 0 to 100"));
    }
    let (high, low) = (high?, low?);
    let message = "spec.kubelet.imageGCHighThresholdPercent: found";
    (high <= low).then(|| format!("{message} {high}, allowed: more than imageGCLowThresholdPercent, which is {low}"))
}

/// The first field that the family cannot express. Custom images have their own user data.
pub(super) fn unsupported(family: AmiFamily, settings: &KubeletSettings, options: &KubeletOptions) -> Option<String> {
    if family != AmiFamily::Bottlerocket {
        return None;
    }
    let remedy = "is not supported by the family Bottlerocket: remove it, or choose another spec.amiFamily";
    if settings.pods_per_core.is_some_and(|pods| pods > 0) {
        return Some(format!("spec.kubelet.podsPerCore {remedy}"));
    }
    (options.cluster_dns.len() > 1).then(|| format!("more than one address in spec.kubelet.clusterDNS {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Millis;
    use model::node_class::{SoftThreshold, Threshold};

    fn settings() -> KubeletSettings {
        KubeletSettings::default()
    }

    fn options() -> KubeletOptions {
        KubeletOptions::default()
    }

    #[test]
    fn each_value_that_no_kubelet_accepts_is_named() {
        let amounts = |name: &str, amount| Resources::from_iter([(name, amount)]);
        let soft = SoftThreshold { threshold: Threshold::Bytes(1), grace_period: Millis::ZERO };
        let gc = |high, low| KubeletOptions {
            image_gc_high_threshold_percent: high,
            image_gc_low_threshold_percent: low,
            ..options()
        };
        let settings_cases = [
            (KubeletSettings { max_pods: Some(-1), ..settings() }, "spec.kubelet.maxPods: found -1"),
            (KubeletSettings { pods_per_core: Some(-2), ..settings() }, "spec.kubelet.podsPerCore: found -2"),
            (
                KubeletSettings { kube_reserved: amounts("gpu", 1), ..settings() },
                "spec.kubelet.kubeReserved: found gpu",
            ),
            (KubeletSettings { system_reserved: amounts("cpu", -1), ..settings() }, "systemReserved: found cpu"),
            (
                KubeletSettings { eviction_hard: [("disk".into(), Threshold::Bytes(1))].into(), ..settings() },
                "spec.kubelet.evictionHard: found disk",
            ),
        ];
        for (settings, part) in settings_cases {
            let message = invalid(&settings, &options()).unwrap();
            assert!(message.contains(part), "{message}");
        }
        let options_cases = [
            (
                KubeletOptions { eviction_max_pod_grace_period: Some(-1), ..options() },
                "evictionMaxPodGracePeriod: found -1",
            ),
            (KubeletOptions { eviction_soft: [("disk".into(), soft)].into(), ..options() }, "evictionSoft: found disk"),
            (gc(Some(101), None), "imageGCHighThresholdPercent: found 101, allowed: 0 to 100"),
            (gc(Some(50), Some(50)), "found 50, allowed: more than imageGCLowThresholdPercent, which is 50"),
        ];
        for (options, part) in options_cases {
            let message = invalid(&settings(), &options).unwrap();
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(invalid(&settings(), &gc(Some(51), Some(50))), None);
        assert_eq!(invalid(&settings(), &gc(Some(51), None)), None);
    }

    #[test]
    fn bottlerocket_has_no_pods_per_core_and_one_dns_address() {
        let per_core = KubeletSettings { pods_per_core: Some(4), ..settings() };
        let two = KubeletOptions { cluster_dns: vec![[10, 0, 0, 10].into(), [10, 0, 0, 11].into()], ..options() };
        let message = |family, settings: &_, options: &_| unsupported(family, settings, options).unwrap_or_default();
        let bottlerocket = AmiFamily::Bottlerocket;
        assert!(message(bottlerocket, &per_core, &options()).starts_with("spec.kubelet.podsPerCore is not supported"));
        assert!(
            message(bottlerocket, &settings(), &two).starts_with("more than one address in spec.kubelet.clusterDNS")
        );
        for family in [AmiFamily::Al2023, AmiFamily::Custom] {
            assert_eq!(unsupported(family, &per_core, &two), None);
        }
    }
}
