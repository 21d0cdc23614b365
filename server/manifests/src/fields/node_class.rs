//! EC2NodeClass (`karpenter.k8s.aws/v1`): images, network, identity, status.

use super::{Field, Table, field, node_class_devices, object};

/// The table.
pub(super) const TABLE: Table = Table {
    kind: "EC2NodeClass",
    short_names: &["ec2nc", "ec2ncs", "ec2nodeclasses"],
    api_version: "karpenter.k8s.aws/v1",
    meaning: "How an EC2 machine is made: images, subnets, security groups, disks, kubelet, identity.",
    fields: &[SELECTION, node_class_devices::KUBELET, node_class_devices::DEVICES, STATUS],
};

const SELECTION: &[Field] = &[
    object("metadata", "Object", "Name, labels and annotations. A class belongs to the whole cluster and has no namespace."),
    object("spec", "Object", "What machines of this class are made of."),
    field(
        "spec.amiFamily",
        "string",
        "the alias's family, else Custom",
        "AL2, AL2023, Bottlerocket, Custom, Windows2019, Windows2022, Windows2025; beside an alias: its family or Custom",
        "How the machine is started: the form of its user data, its default disks, what kubelet reserves. Required without an alias.",
        "AL2023",
    ),
    field("spec.amiSelectorTerms", "[]Object", "", "1 to 30; an alias stands alone", "Which images are used: those that match any term. Required.", ""),
    field(
        "spec.amiSelectorTerms.alias",
        "string",
        "",
        "family@version, at most 30 characters; al2, al2023, bottlerocket, windows2019, windows2022, windows2025; Windows only @latest",
        "Images that AWS publishes, by family and version. With @latest nodes are replaced whenever AWS publishes.",
        "al2023@v20250620",
    ),
    field("spec.amiSelectorTerms.tags", "map[string]string", "", "at most 20; no empty key or value; the value * means that the tag exists", "Images with all these tags.", "{release: stable}"),
    field("spec.amiSelectorTerms.id", "string", "", "ami-…; excludes the other fields", "One image.", "ami-0123456789abcdef0"),
    field("spec.amiSelectorTerms.name", "string", "", "* stands for any characters", "Images of this name.", "my-nodes-*"),
    field("spec.amiSelectorTerms.owner", "string", "self and amazon beside a name", "an account id, self or amazon", "Whose images.", "self"),
    field("spec.amiSelectorTerms.ssmParameter", "string", "", "", "A Systems Manager parameter that holds an image id.", "/golden/eks/image_id"),
    field("spec.subnetSelectorTerms", "[]Object", "", "1 to 30; each with tags or id", "Which subnets machines are started in: those that match any term. Required.", ""),
    field("spec.subnetSelectorTerms.tags", "map[string]string", "", "at most 20; no empty key or value; the value * means that the tag exists", "Subnets with all these tags.", "{karpenter.sh/discovery: my-cluster}"),
    field("spec.subnetSelectorTerms.id", "string", "", "subnet-…; excludes tags", "One subnet.", "subnet-0123456789abcdef0"),
    field("spec.securityGroupSelectorTerms", "[]Object", "", "1 to 30; each with tags, id or name", "Which security groups machines get: those that match any term. Required.", ""),
    field("spec.securityGroupSelectorTerms.tags", "map[string]string", "", "at most 20; no empty key or value; the value * means that the tag exists", "Groups with all these tags.", "{karpenter.sh/discovery: my-cluster}"),
    field("spec.securityGroupSelectorTerms.id", "string", "", "sg-…; excludes tags and name", "One group.", "sg-0123456789abcdef0"),
    field("spec.securityGroupSelectorTerms.name", "string", "", "excludes tags and id", "Groups of this name; not the tag Name.", "nodes"),
    field("spec.capacityReservationSelectorTerms", "[]Object", "none", "at most 30; each with tags, id or instanceMatchCriteria", "Capacity reservations that are used before anything is bought.", ""),
    field("spec.capacityReservationSelectorTerms.tags", "map[string]string", "", "at most 20", "Reservations with all these tags.", "{team: ml}"),
    field("spec.capacityReservationSelectorTerms.id", "string", "", "cr-…; excludes the other fields", "One reservation.", "cr-0123456789abcdef0"),
    field("spec.capacityReservationSelectorTerms.ownerID", "string", "", "twelve digits; not alone", "The account that owns the reservation.", "\"123456789012\""),
    field("spec.capacityReservationSelectorTerms.instanceMatchCriteria", "string", "", "open, targeted", "Reservations with this criterion.", "targeted"),
    field("spec.placementGroupSelector", "Object", "none", "exactly one of name and id", "The placement group that machines are started in.", ""),
    field("spec.placementGroupSelector.name", "string", "", "", "Name of the group.", "low-latency"),
    field("spec.placementGroupSelector.id", "string", "", "pg-…", "Id of the group.", "pg-0123456789abcdef0"),
    field("spec.role", "string", "", "exactly one of role and instanceProfile", "The IAM role of the nodes; an instance profile is made for it.", "KarpenterNodeRole-my-cluster"),
    field("spec.instanceProfile", "string", "", "exactly one of role and instanceProfile", "An instance profile that exists already.", "eks-nodes"),
    field("spec.associatePublicIPAddress", "boolean", "the subnet decides", "", "Whether machines get a public address.", "false"),
    field("spec.ipPrefixCount", "integer", "none", "0 or more", "Address prefixes given to each network interface at start.", "1"),
    field("spec.userData", "string", "", "at most 16 KB after merging", "Given to the machine at start, merged with what the family needs.", "|\n  #!/bin/bash\n  echo ready"),
    field(
        "spec.tags",
        "map[string]string",
        "",
        "no empty key; not kubernetes.io/cluster*, karpenter.sh/nodepool, karpenter.sh/nodeclaim, karpenter.k8s.aws/ec2nodeclass, eks:eks-cluster-name",
        "Tags on machines, disks and everything else that is made for them.",
        "{team: platform}",
    ),
    field("spec.detailedMonitoring", "boolean", "false", "", "Whether CloudWatch gets figures every minute.", "true"),
    field("spec.context", "string", "", "", "A field of EC2 Fleet that AWS reserves for itself.", ""),
    object("spec.metadataOptions", "Object", "How the machine's metadata service can be reached."),
    field("spec.metadataOptions.httpEndpoint", "string", "enabled", "enabled, disabled", "Whether the service answers at all.", "enabled"),
    field("spec.metadataOptions.httpProtocolIPv6", "string", "disabled", "enabled, disabled", "Whether it answers over IPv6.", "disabled"),
    field("spec.metadataOptions.httpPutResponseHopLimit", "integer", "1", "1 to 64", "How far its answers travel; 1 keeps pods off it, 2 lets them in.", "1"),
    field("spec.metadataOptions.httpTokens", "string", "required", "required, optional", "Whether a session token is needed; optional is the weak old way.", "required"),
];

const STATUS: &[Field] = &[
    object("status", "Object", "What was found; never written by hand. Without status a class counts as ready, with subnets in all zones of the region."),
    object("status.subnets", "[]Object", "Subnets found: id, zone, zoneID. They bound the zones of new nodes."),
    object("status.securityGroups", "[]Object", "Security groups found: id, name."),
    object("status.capacityReservations", "[]Object", "Reservations found: id, instanceType, availabilityZone, endTime, instanceMatchCriteria, interruptible, ownerID, reservationType, state."),
    object("status.amis", "[]Object", "Images found: id, name, deprecated, requirements."),
    field("status.instanceProfile", "string", "", "", "The instance profile in use.", ""),
    object("status.conditions", "[]Object", "AMIsReady, SubnetsReady, SecurityGroupsReady, InstanceProfileReady, ValidationSucceeded, Ready and others. A class whose Ready is not True bars its pools."),
];
