//! EKS images and the SSM parameters that lead to them.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::value::Tags;

/// Kubernetes versions with images.
pub const EKS_VERSIONS: [&str; 7] = ["1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36"];

/// Releases of the seeded images, oldest first: version of AL2023, version of Bottlerocket, creation and deprecation.
/// EKS images are deprecated two years after their creation.
const RELEASES: [(&str, &str, &str, &str); 3] = [
    ("v20240117", "1.18.0", "2024-01-17T00:00:00.000Z", "2026-01-17T00:00:00.000Z"),
    ("v20260312", "1.54.0", "2026-03-12T00:00:00.000Z", "2028-03-12T00:00:00.000Z"),
    ("v20260806", "1.60.1", "2026-08-06T00:00:00.000Z", "2028-08-06T00:00:00.000Z"),
];

/// Account of Amazon's EKS images.
const AMAZON: &str = "602401143452";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Image id.
    pub id: String,
    pub name: String,
    /// Account id of the owner.
    pub owner: String,
    /// Alias of the owner, such as `amazon`.
    pub owner_alias: Option<String>,
    /// `x86_64` or `arm64`.
    pub architecture: String,
    /// Creation, RFC 3339 with milliseconds.
    pub created: String,
    /// Deprecation, likewise.
    pub deprecated: Option<String>,
    /// State, such as `available`.
    pub state: String,
    pub tags: Tags,
}

/// Images of AL2023 and Bottlerocket for every version, architecture and variant, and their SSM parameters.
pub(super) fn eks_images(region: &str) -> (Vec<Image>, BTreeMap<String, String>) {
    let mut images = Vec::new();
    let mut parameters = BTreeMap::new();
    for kubernetes in EKS_VERSIONS {
        for (index, release) in RELEASES.iter().enumerate() {
            let latest = index + 1 == RELEASES.len();
            let of_release =
                al2023(kubernetes, release, latest).into_iter().chain(bottlerocket(kubernetes, release, latest));
            for (name, architecture, paths) in of_release {
                let image = image(region, name, architecture, release);
                parameters.extend(paths.into_iter().map(|path| (path, image.id.clone())));
                images.push(image);
            }
        }
    }
    (images, parameters)
}

type Named = (String, &'static str, Vec<String>);

fn al2023(kubernetes: &str, (version, ..): &(&str, &str, &str, &str), latest: bool) -> Vec<Named> {
    let variants = [
        ("x86_64", "standard"),
        ("x86_64", "nvidia"),
        ("x86_64", "neuron"),
        ("arm64", "standard"),
        ("arm64", "nvidia"),
    ];
    let named = |(architecture, variant): (&'static str, &str)| {
        let name = format!("amazon-eks-node-al2023-{architecture}-{variant}-{kubernetes}-{version}");
        let folder = format!("/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023/{architecture}/{variant}");
        let mut paths = vec![format!("{folder}/{name}/image_id")];
        if latest {
            paths.push(format!("{folder}/recommended/image_id"));
        }
        (name, architecture, paths)
    };
    variants.map(named).into()
}

fn bottlerocket(kubernetes: &str, (_, version, ..): &(&str, &str, &str, &str), latest: bool) -> Vec<Named> {
    let variants = [("x86_64", ""), ("x86_64", "-nvidia"), ("arm64", ""), ("arm64", "-nvidia")];
    let named = |(architecture, suffix): (&'static str, &str)| {
        let build = &digest(&format!("{kubernetes}{suffix}{version}"))[..8];
        let name = format!("bottlerocket-aws-k8s-{kubernetes}{suffix}-{architecture}-v{version}-{build}");
        let folder = format!("/aws/service/bottlerocket/aws-k8s-{kubernetes}{suffix}/{architecture}");
        let mut paths = vec![format!("{folder}/{version}/image_id")];
        if latest {
            paths.push(format!("{folder}/latest/image_id"));
        }
        (name, architecture, paths)
    };
    variants.map(named).into()
}

fn image(region: &str, name: String, architecture: &str, release: &(&str, &str, &str, &str)) -> Image {
    let (_, _, created, deprecated) = release;
    Image {
        id: format!("ami-{}", &digest(&format!("{region}/{name}"))[..17]),
        name,
        owner: AMAZON.to_owned(),
        owner_alias: Some("amazon".to_owned()),
        architecture: architecture.to_owned(),
        created: (*created).to_owned(),
        deprecated: Some((*deprecated).to_owned()),
        state: "available".to_owned(),
        tags: Tags::new(),
    }
}

fn digest(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
