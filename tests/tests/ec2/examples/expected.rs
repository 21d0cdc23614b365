//! What becomes of each example, worked out from its file and Karpenter's documentation of launches.

use serde_json::{Value, json};

/// Where the image of an example comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Image {
    /// The image that this SSM parameter has.
    Parameter(&'static str),
    Id(&'static str),
}

/// A disk: device name, GiB, whether `Encrypted` is set, and whether `DeleteOnTermination` is.
pub(super) type Disk = (&'static str, u32, bool, bool);

/// What user data an instance gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UserData {
    /// A MIME document: parts of the user, by content type and a line of each, then the NodeConfig.
    NodeConfig(&'static [(&'static str, &'static str)]),
    /// Bottlerocket's settings, with these lines of the user under `[settings.kubernetes]`.
    Settings(&'static [&'static str]),
    /// `spec.userData` as it is.
    Verbatim,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExpectedLaunch {
    pub(super) pool: &'static str,
    pub(super) class: &'static str,
    /// `spot` or `on-demand`.
    pub(super) capacity_type: &'static str,
    pub(super) image: Image,
    pub(super) disks: &'static [Disk],
    pub(super) user_data: UserData,
    /// `instance.localStorage.strategy` of the NodeConfig.
    pub(super) local_storage: Option<&'static str>,
    pub(super) types: Types,
}

/// Which instance types a launch may have, and how many different ones it must.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Types {
    /// Letters at the beginning of the name.
    pub(super) categories: &'static [&'static str],
    /// The first digits of the name are greater.
    pub(super) generation_above: u32,
    /// `amd64` or `arm64`.
    pub(super) architecture: &'static str,
    pub(super) vcpus_above: i64,
    pub(super) memory_mib_above: i64,
    pub(super) nvme_above: Option<i64>,
    /// Categories, families, types.
    pub(super) at_least: (usize, usize, usize),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Outcome {
    Launches(&'static [ExpectedLaunch]),
    /// Its EC2NodeClass is refused: a condition says this.
    Refused(&'static str),
    /// No API server accepts its NodePool, by the CRD: this field of `spec.template.spec` does not match its pattern.
    NotAccepted(&'static str),
}

const AL2023: Image =
    Image::Parameter("/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id");
const AL2023_ARM: Image =
    Image::Parameter("/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/arm64/standard/recommended/image_id");
/// The parameter of the pinned version; the account gets it for this test.
pub(super) const AL2023_PINNED: &str = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/\
     amazon-eks-node-al2023-x86_64-standard-1.35-v20240625/image_id";
const BOTTLEROCKET: Image = Image::Parameter("/aws/service/bottlerocket/aws-k8s-1.35/x86_64/latest/image_id");

/// The requirement of most examples.
const GENERAL: Types = Types {
    categories: &["c", "m", "r"],
    generation_above: 2,
    architecture: "amd64",
    vcpus_above: 0,
    memory_mib_above: 0,
    nvme_above: None,
    at_least: (1, 1, 1),
};

/// Amazon Linux 2023 without settings: the default disk of the family, and the NodeConfig alone.
const PLAIN: ExpectedLaunch = ExpectedLaunch {
    pool: "default",
    class: "default",
    capacity_type: "on-demand",
    image: AL2023,
    disks: &[("/dev/xvda", 20, true, false)],
    user_data: UserData::NodeConfig(&[]),
    local_storage: None,
    types: GENERAL,
};

const SHELL: &str = "text/x-shellscript; charset=\"us-ascii\"";

/// The default disks of Bottlerocket.
const BOTTLEROCKET_DISKS: &[Disk] = &[("/dev/xvda", 4, true, false), ("/dev/xvdb", 20, true, false)];

const SPOT: ExpectedLaunch = ExpectedLaunch { pool: "spot", capacity_type: "spot", ..PLAIN };
const PINNED_SPOT: ExpectedLaunch = ExpectedLaunch { image: Image::Parameter(AL2023_PINNED), ..SPOT };

/// All examples, by path.
pub(super) const EXAMPLES: [(&str, Outcome); 22] = [
    ("v1/100-cpu-limit.yaml", Outcome::Launches(&[ExpectedLaunch { pool: "limitcpu100", ..PLAIN }])),
    ("v1/al2-custom-ami.yaml", Outcome::Refused("UnsupportedAMIFamily: the image family AL2 is not supported")),
    // Named after AL2, and written for AL2023.
    (
        "v1/al2-custom-userdata.yaml",
        Outcome::Launches(&[ExpectedLaunch {
            class: "al2",
            user_data: UserData::NodeConfig(&[(SHELL, "echo \"Running a custom user data script\"")]),
            ..PLAIN
        }]),
    ),
    (
        "v1/al2-kubelet-log-query.yaml",
        Outcome::Launches(&[ExpectedLaunch {
            class: "al2",
            user_data: UserData::NodeConfig(&[(
                SHELL,
                "Environment=\"KUBELET_EXTRA_ARGS=--feature-gates=NodeLogQuery=true $KUBELET_EXTRA_ARGS\"",
            )]),
            ..PLAIN
        }]),
    ),
    (
        "v1/al2023-custom-userdata.yaml",
        Outcome::Launches(&[ExpectedLaunch {
            class: "al2023",
            user_data: UserData::NodeConfig(&[
                ("application/node.eks.aws", "      strategy: Mount"),
                (SHELL, "echo \"Hello, AL2023!\""),
            ]),
            ..PLAIN
        }]),
    ),
    // Its own disks are not encrypted, and deleted with the instance.
    (
        "v1/bottlerocket.yaml",
        Outcome::Launches(&[ExpectedLaunch {
            class: "bottlerocket",
            image: BOTTLEROCKET,
            disks: &[("/dev/xvda", 4, false, true), ("/dev/xvdb", 20, false, true)],
            user_data: UserData::Settings(&[]),
            ..PLAIN
        }]),
    ),
    (
        "v1/br-custom-userdata.yaml",
        Outcome::Launches(&[ExpectedLaunch {
            class: "bottlerocket",
            image: BOTTLEROCKET,
            disks: BOTTLEROCKET_DISKS,
            user_data: UserData::Settings(&["kube-api-qps = 30"]),
            ..PLAIN
        }]),
    ),
    // The family Custom has the images of the alias, no disks of its own, and the user data as it is.
    (
        "v1/custom-family-with-alias.yaml",
        Outcome::Launches(&[ExpectedLaunch {
            class: "custom-family",
            image: BOTTLEROCKET,
            disks: &[],
            user_data: UserData::Verbatim,
            ..PLAIN
        }]),
    ),
    (
        "v1/custom-family.yaml",
        Outcome::Launches(&[ExpectedLaunch {
            class: "custom-family",
            image: Image::Id("ami-123"),
            disks: &[],
            user_data: UserData::Verbatim,
            ..PLAIN
        }]),
    ),
    ("v1/general-purpose.yaml", Outcome::Launches(&[ExpectedLaunch { pool: "general-purpose", ..PLAIN }])),
    (
        "v1/instance-store-ephemeral-storage.yaml",
        Outcome::Launches(&[ExpectedLaunch {
            class: "instance-store-ephemeral-storage",
            local_storage: Some("RAID0"),
            types: Types { nvme_above: Some(300), ..GENERAL },
            ..PLAIN
        }]),
    ),
    // It requires neither an architecture nor a capacity type; the pod requires amd64. Spot comes first.
    (
        "v1/large-instances.yaml",
        Outcome::Launches(&[ExpectedLaunch {
            pool: "large-instances",
            capacity_type: "spot",
            types: Types { categories: &[], generation_above: 0, vcpus_above: 3, memory_mib_above: 8_191, ..GENERAL },
            ..PLAIN
        }]),
    ),
    ("v1/max-node-lifetime.yaml", Outcome::Launches(&[PLAIN])),
    (
        "v1/min-values-family.yaml",
        Outcome::Launches(&[ExpectedLaunch { types: Types { at_least: (1, 5, 1), ..GENERAL }, ..PINNED_SPOT }]),
    ),
    (
        "v1/min-values-multiple-keys.yaml",
        Outcome::Launches(&[ExpectedLaunch { types: Types { at_least: (2, 5, 2), ..GENERAL }, ..PINNED_SPOT }]),
    ),
    (
        "v1/multiple-arch.yaml",
        Outcome::Launches(&[
            ExpectedLaunch { pool: "amd64", ..PLAIN },
            ExpectedLaunch {
                pool: "arm64",
                image: AL2023_ARM,
                types: Types { categories: &["c", "a"], architecture: "arm64", ..GENERAL },
                ..PLAIN
            },
        ]),
    ),
    (
        "v1/multiple-ebs.yaml",
        Outcome::Launches(&[ExpectedLaunch {
            class: "multiple-ebs",
            disks: &[
                ("/dev/xvda", 20, false, true),
                ("/dev/xvdb", 100, false, true),
                ("/dev/xvdc", 2_000, false, true),
            ],
            ..PLAIN
        }]),
    ),
    ("v1/spot.yaml", Outcome::Launches(&[SPOT])),
    ("v1/windows-2019.yaml", Outcome::Refused("UnsupportedAlias: the image family Windows2019 is not supported")),
    ("v1/windows-2022.yaml", Outcome::Refused("UnsupportedAlias: the image family Windows2022 is not supported")),
    ("v1/windows-2025.yaml", Outcome::Refused("UnsupportedAlias: the image family Windows2025 is not supported")),
    // The group is `karpenter.k8s.aws/v1`.
    ("v1/windows-custom-userdata.yaml", Outcome::NotAccepted("nodeClassRef.group")),
];

impl Outcome {
    /// Node selectors of the pods: one for each launch, or one of a pod that fits.
    pub(super) fn node_selectors(&self) -> Vec<Value> {
        match self {
            Self::Launches(all) => {
                all.iter().map(|launch| json!({ "kubernetes.io/arch": launch.types.architecture })).collect()
            }
            Self::Refused(_) | Self::NotAccepted(_) => vec![json!({})],
        }
    }
}
