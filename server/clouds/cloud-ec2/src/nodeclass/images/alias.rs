//! An alias such as `al2023@latest` as SSM parameters, each with the instance types that boot its image
//! (Karpenter AWS: AMI selector terms).

use model::labels::ARCH;
use model::node_class::AmiFamily;
use model::{Operator, Requirement, Requirements, Text};

const GPU_COUNT: &str = "karpenter.k8s.aws/instance-gpu-count";
const ACCELERATOR_COUNT: &str = "karpenter.k8s.aws/instance-accelerator-count";

/// An image of an alias: the parameter that has its id, and the requirements of the instance types that boot it, one
/// set for each kind of instance type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::nodeclass) struct Variant {
    pub(in crate::nodeclass) parameter: Text,
    pub(in crate::nodeclass) requirements: Vec<Requirements>,
}

/// Why an alias has no images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::nodeclass) enum AliasError {
    /// The text is not `family@version`.
    Malformed,
    /// A family whose nodes this version cannot start.
    Unsupported(AmiFamily),
    /// The version of the API server is not known, and images depend on it.
    NoKubernetesVersion,
}

#[derive(Debug, Clone, Copy)]
enum Device {
    None,
    Nvidia,
    Neuron,
}

/// The images of `alias` for a cluster of this version, such as `v1.35.2`.
pub(in crate::nodeclass) fn variants(alias: &str, kubernetes_version: &str) -> Result<Vec<Variant>, AliasError> {
    let (family, version) =
        alias.split_once('@').filter(|(_, version)| !version.is_empty()).ok_or(AliasError::Malformed)?;
    let family = AmiFamily::parse(family).ok_or(AliasError::Malformed)?;
    let minor = || minor_version(kubernetes_version).ok_or(AliasError::NoKubernetesVersion);
    match family {
        AmiFamily::Al2023 => Ok(al2023(&minor()?, version)),
        AmiFamily::Bottlerocket => Ok(bottlerocket(&minor()?, version)),
        AmiFamily::Custom => Err(AliasError::Malformed),
        other => Err(AliasError::Unsupported(other)),
    }
}

/// Whether the images of an alias change with time.
pub(in crate::nodeclass) fn is_pinned(parameter: &str) -> bool {
    !(parameter.contains("/recommended/") || parameter.contains("/latest/"))
}

/// `1.35` of `v1.35.2-eks-abc`. Some providers append `+` to the minor version.
fn minor_version(version: &str) -> Option<String> {
    let mut parts = version.trim_start_matches('v').split('.');
    let (major, minor) = (parts.next()?, parts.next()?);
    let minor: String = minor.chars().take_while(char::is_ascii_digit).collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (is_number(major) && is_number(&minor)).then(|| format!("{major}.{minor}"))
}

fn al2023(minor: &str, version: &str) -> Vec<Variant> {
    let images = [
        ("x86_64", "standard", Device::None),
        ("x86_64", "nvidia", Device::Nvidia),
        ("x86_64", "neuron", Device::Neuron),
        ("arm64", "standard", Device::None),
        ("arm64", "nvidia", Device::Nvidia),
    ];
    let variant = |(arch, variant, device): (&str, &str, Device)| {
        let image = match version {
            "latest" => "recommended".to_owned(),
            pinned => format!("amazon-eks-node-al2023-{arch}-{variant}-{minor}-{pinned}"),
        };
        let base = "/aws/service/eks/optimized-ami";
        let parameter = format!("{base}/{minor}/amazon-linux-2023/{arch}/{variant}/{image}/image_id");
        Variant { parameter: parameter.into(), requirements: vec![requirements(arch, device)] }
    };
    images.map(variant).into()
}

fn bottlerocket(minor: &str, version: &str) -> Vec<Variant> {
    let images: [(&str, &str, &[Device]); 4] = [
        ("x86_64", "", &[Device::None, Device::Neuron]),
        ("x86_64", "-nvidia", &[Device::Nvidia]),
        ("arm64", "", &[Device::None]),
        ("arm64", "-nvidia", &[Device::Nvidia]),
    ];
    let version = version.trim_start_matches('v');
    let variant = |(arch, suffix, devices): (&str, &str, &[Device])| {
        let parameter = format!("/aws/service/bottlerocket/aws-k8s-{minor}{suffix}/{arch}/{version}/image_id");
        let requirements = devices.iter().map(|device| requirements(arch, *device)).collect();
        Variant { parameter: parameter.into(), requirements }
    };
    images.map(variant).into()
}

fn requirements(arch: &str, device: Device) -> Requirements {
    let mut all = Requirements::new();
    all.add(Requirement::equals(ARCH, kubernetes_arch(arch).unwrap_or(arch)));
    let devices: &[(&str, Operator)] = match device {
        Device::None => &[(ACCELERATOR_COUNT, Operator::DoesNotExist), (GPU_COUNT, Operator::DoesNotExist)],
        Device::Nvidia => &[(GPU_COUNT, Operator::Exists)],
        Device::Neuron => &[(ACCELERATOR_COUNT, Operator::Exists)],
    };
    devices.iter().for_each(|(key, operator)| all.add(Requirement::new(key, *operator, [])));
    all
}

/// The architecture as Kubernetes names it; `None` for one that no node has.
pub(in crate::nodeclass) fn kubernetes_arch(ec2: &str) -> Option<&'static str> {
    match ec2 {
        "x86_64" => Some("amd64"),
        "arm64" => Some("arm64"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(alias: &str, version: &str) -> Vec<(String, Vec<String>)> {
        let text = |set: &Requirements| set.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let one = |variant: Variant| (variant.parameter.to_string(), variant.requirements.iter().map(text).collect());
        variants(alias, version).unwrap().into_iter().map(one).collect()
    }

    const STANDARD: &str = "karpenter.k8s.aws/instance-accelerator-count DoesNotExist, \
                            karpenter.k8s.aws/instance-gpu-count DoesNotExist, kubernetes.io/arch In [";
    const GPU: &str = "karpenter.k8s.aws/instance-gpu-count Exists, kubernetes.io/arch In [";
    const NEURON: &str = "karpenter.k8s.aws/instance-accelerator-count Exists, kubernetes.io/arch In [";

    #[test]
    fn the_latest_al2023_has_five_images() {
        let base = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023";
        let row = |image: &str, set: &str, arch: &str| {
            (format!("{base}/{image}/recommended/image_id"), vec![format!("{set}{arch}]")])
        };
        assert_eq!(
            shown("al2023@latest", "v1.35.2-eks-1a2b3c4"),
            [
                row("x86_64/standard", STANDARD, "amd64"),
                row("x86_64/nvidia", GPU, "amd64"),
                row("x86_64/neuron", NEURON, "amd64"),
                row("arm64/standard", STANDARD, "arm64"),
                row("arm64/nvidia", GPU, "arm64"),
            ]
        );
    }

    #[test]
    fn a_pinned_al2023_names_the_version_in_each_parameter() {
        let found = shown("al2023@v20240807", "1.33+");
        let base = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023";
        assert_eq!(
            found[4].0,
            format!("{base}/arm64/nvidia/amazon-eks-node-al2023-arm64-nvidia-1.33-v20240807/image_id")
        );
        assert!(is_pinned(&found[4].0) && !is_pinned(&shown("al2023@latest", "1.33")[0].0));
    }

    #[test]
    fn bottlerocket_has_one_image_for_standard_and_neuron_types() {
        let base = "/aws/service/bottlerocket/aws-k8s-1.35";
        let both = vec![format!("{STANDARD}amd64]"), format!("{NEURON}amd64]")];
        assert_eq!(
            shown("bottlerocket@v1.20.5", "v1.35.2"),
            [
                (format!("{base}/x86_64/1.20.5/image_id"), both),
                (format!("{base}-nvidia/x86_64/1.20.5/image_id"), vec![format!("{GPU}amd64]")]),
                (format!("{base}/arm64/1.20.5/image_id"), vec![format!("{STANDARD}arm64]")]),
                (format!("{base}-nvidia/arm64/1.20.5/image_id"), vec![format!("{GPU}arm64]")]),
            ]
        );
        assert!(!is_pinned(&shown("bottlerocket@latest", "1.35")[0].0));
    }

    #[test]
    fn other_aliases_are_refused() {
        for (alias, version, error) in [
            ("al2@latest", "v1.32.0", AliasError::Unsupported(AmiFamily::Al2)),
            ("windows2022@latest", "v1.32.0", AliasError::Unsupported(AmiFamily::Windows2022)),
            ("al2023", "v1.32.0", AliasError::Malformed),
            ("al2023@", "v1.32.0", AliasError::Malformed),
            ("custom@latest", "v1.32.0", AliasError::Malformed),
            ("ubuntu@latest", "v1.32.0", AliasError::Malformed),
            ("al2023@latest", "", AliasError::NoKubernetesVersion),
            ("al2023@latest", "latest", AliasError::NoKubernetesVersion),
        ] {
            assert_eq!(variants(alias, version), Err(error), "{alias} {version}");
        }
    }
}
