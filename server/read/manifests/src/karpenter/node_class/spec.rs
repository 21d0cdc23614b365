//! Fields of `spec` that only launches need, and `spec` as a whole.

use model::node_class::{AmiFamily, BlockDevice, InstanceIdentity, MetadataOptions, NodeClassSettings, NodeClassSpec};
use serde_json::json;

use super::{devices, kubelet, selectors};
use crate::Cursor;
use crate::schema::part::{Entry, Part, boolean, fields, integer, map, object, one_of, one_of_table, text};

/// Tags that the system sets, and that users may not set.
const OWN_TAGS: [&str; 4] =
    ["eks:eks-cluster-name", "karpenter.sh/nodepool", "karpenter.sh/nodeclaim", "karpenter.k8s.aws/ec2nodeclass"];
/// The values of a field that is on or off.
pub(super) const SWITCH: [(&str, bool); 2] = [("enabled", true), ("disabled", false)];
/// The values of `instanceStorePolicy`.
pub(super) const STORE_POLICIES: [(&str, bool); 1] = [("RAID0", true)];
/// The values of `httpTokens`.
const TOKENS: [(&str, bool); 2] = [("required", true), ("optional", false)];

pub(super) fn schema() -> Part {
    object(selection_fields().into_iter().chain(configuration_fields()).collect())
        .required(&["amiSelectorTerms", "securityGroupSelectorTerms", "subnetSelectorTerms"])
        .rule("has(self.role) != has(self.instanceProfile)", "exactly one of role and instanceProfile is needed")
        .rule(
            "!has(self.amiFamily) || self.amiFamily == 'Custom' || self.amiSelectorTerms.all(x, !has(x.alias) || x.alias.find('^[^@]+') == self.amiFamily.lowerAscii())",
            "amiFamily and the alias in amiSelectorTerms name different families; beside an alias amiFamily is its family or Custom",
        )
        .rule(
            "has(self.amiFamily) || self.amiSelectorTerms.exists(x, has(x.alias))",
            "amiFamily is needed when amiSelectorTerms has no alias",
        )
}

/// What the account has: images, subnets, security groups, reservations and the identity.
fn selection_fields() -> Vec<Entry> {
    let filled = |what: &str| text().rule("self != ''", format!("{what} is empty; write its name or leave it out"));
    fields! {
        /// How the machine is started: the form of its user data, its default disks, what kubelet reserves. Required
        /// without an alias.
        /// Default: the alias's family, else Custom
        /// Allowed: AL2, AL2023, Bottlerocket, Custom, Windows2019, Windows2022, Windows2025; beside an alias: its
        /// family or Custom
        /// Example: AL2023
        "amiFamily": one_of(&AmiFamily::ALL.map(AmiFamily::as_str)),
        /// Which images are used: those that match any term. Required.
        /// Allowed: 1 to 30; an alias must be the only term
        "amiSelectorTerms": selectors::images_schema(),
        /// Which subnets machines are started in: those that match any term. Required.
        /// Allowed: 1 to 30; each with tags or id
        "subnetSelectorTerms": selectors::subnets_schema(),
        /// Which security groups machines get: those that match any term. Required.
        /// Allowed: 1 to 30; each with tags, id or name
        "securityGroupSelectorTerms": selectors::security_groups_schema(),
        /// Capacity reservations that are used before on-demand and spot capacity.
        /// Default: none
        /// Allowed: at most 30; each with tags, id or instanceMatchCriteria
        "capacityReservationSelectorTerms": selectors::reservations_schema(),
        /// The placement group that machines are started in.
        /// Default: none
        /// Allowed: exactly one of name and id
        "placementGroupSelector": selectors::placement_group_schema(),
        /// The IAM role of the nodes; an instance profile is made for it.
        /// Allowed: exactly one of role and instanceProfile
        /// Example: KarpenterNodeRole-my-cluster
        "role": filled("role"),
        /// An instance profile that exists already.
        /// Allowed: exactly one of role and instanceProfile
        /// Example: eks-nodes
        "instanceProfile": filled("instanceProfile"),
    }
}

/// How the machine is configured.
fn configuration_fields() -> Vec<Entry> {
    fields! {
        /// Whether machines get a public address.
        /// Default: the subnet decides
        /// Example: false
        "associatePublicIPAddress": boolean(),
        /// Address prefixes given to each network interface at start.
        /// Default: none
        /// Example: 1
        "ipPrefixCount": integer("int32").at_least(0),
        /// Given to the machine at start, merged with what the family needs.
        /// Allowed: at most 16 KB after merging
        /// Example: |
        ///   #!/bin/bash
        ///   echo ready
        "userData": text(),
        /// Tags on machines, disks and everything else that is made for them.
        /// Allowed: no empty key; not kubernetes.io/cluster*, karpenter.sh/nodepool, karpenter.sh/nodeclaim,
        /// karpenter.k8s.aws/ec2nodeclass, eks:eks-cluster-name
        /// Example: {team: platform}
        "tags": tags_schema(),
        /// Whether CloudWatch gets figures every minute.
        /// Default: false
        /// Example: true
        "detailedMonitoring": boolean(),
        /// A field of EC2 Fleet that AWS reserves for itself.
        "context": text(),
        /// How the machine's metadata service can be reached.
        "metadataOptions": metadata_options_schema(),
        /// Settings of the kubelet; they also decide how much of a machine pods can use.
        "kubelet": kubelet::schema(),
        /// The machine's disks.
        /// Default: AL2, AL2023: /dev/xvda 20Gi; Bottlerocket: /dev/xvda 4Gi and /dev/xvdb 20Gi; Windows: /dev/sda1
        /// 50Gi; Custom: none; all gp3, encrypted
        /// Allowed: at most 50; at most one with rootVolume
        "blockDeviceMappings": devices::disks_schema(),
        /// RAID0 joins all local NVMe disks and puts pods' files there; their size is then the ephemeral storage.
        /// Default: disks are unchanged
        /// Example: RAID0
        "instanceStorePolicy": one_of_table(&STORE_POLICIES),
        /// Network interfaces at start.
        /// Default: by the machine
        /// Allowed: at most 150; one of card 0, device 0, type interface; each (card, device) once; at most one
        /// efa-only per card
        "networkInterfaces": devices::network_interfaces_schema(),
        /// How long idle connections are remembered by security groups.
        /// Default: EC2's
        /// Allowed: at least one field; Nitro machines only
        "connectionTracking": devices::connection_tracking_schema(),
        /// Options of the CPU.
        "cpuOptions": object(fields! {
            /// Whether virtual machines can run inside; only machines that can are used.
            /// Default: disabled
            /// Example: enabled
            "nestedVirtualization": one_of_table(&SWITCH),
        }),
    }
}

/// Tags of all created resources; users cannot set the tags of the system.
fn tags_schema() -> Part {
    let mut tags = map(text()).rule("self.all(k, k != '')", "a tag needs a key");
    for own in OWN_TAGS {
        tags =
            tags.rule(format!("!('{own}' in self)"), format!("the tag {own} is set by the system itself; remove it"));
    }
    tags.rule(
        "self.all(k, !k.startsWith('kubernetes.io/cluster'))",
        "tags that begin with kubernetes.io/cluster are set by the system itself; remove them",
    )
}

fn metadata_options_schema() -> Part {
    let defaults = json!({
        "httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 1, "httpTokens": "required",
    });
    object(fields! {
        /// Whether the service answers at all.
        /// Example: enabled
        "httpEndpoint": one_of_table(&SWITCH).default_value(json!("enabled")),
        /// Whether it answers over IPv6.
        /// Example: disabled
        "httpProtocolIPv6": one_of_table(&SWITCH).default_value(json!("disabled")),
        /// Maximum number of network hops of a response; 1 prevents access from pods, 2 allows it.
        /// Example: 1
        "httpPutResponseHopLimit": integer("int64").between(1, 64).default_value(json!(1)),
        /// Whether a session token is needed; optional is the weak old way.
        /// Example: required
        "httpTokens": one_of_table(&TOKENS).default_value(json!("required")),
    })
    .default_value(defaults)
}

/// Reads and validates `spec`, of which `settings` and `block_devices` have been read.
pub(super) fn read(spec: &Cursor<'_>, settings: &NodeClassSettings, block_devices: Vec<BlockDevice>) -> NodeClassSpec {
    // Without a spec only its absence is reported, and not each missing field.
    if spec.exists() {
        selectors::check(spec);
        check_identity(spec);
        check_tags(&spec.at("tags"));
    }
    NodeClassSpec {
        ami_family: settings.ami_family,
        ami_terms: selectors::image_terms(&spec.at("amiSelectorTerms")),
        subnet_terms: selectors::resource_terms(&spec.at("subnetSelectorTerms")),
        security_group_terms: selectors::resource_terms(&spec.at("securityGroupSelectorTerms")),
        reservation_terms: selectors::reservation_terms(&spec.at("capacityReservationSelectorTerms")),
        placement_group: spec.at("placementGroupSelector").exists(),
        identity: identity(spec),
        associate_public_ip: spec.at("associatePublicIPAddress").bool(),
        ip_prefix_count: read_count(&spec.at("ipPrefixCount")),
        user_data: spec.at("userData").text(),
        tags: spec.at("tags").string_map(),
        kubelet: settings.kubelet.clone(),
        kubelet_options: kubelet::read_options(&spec.at("kubelet")),
        block_devices,
        instance_store_raid0: settings.instance_store_raid0,
        network_interfaces: settings.network_interfaces.clone(),
        connection_tracking: devices::connection_tracking(&spec.at("connectionTracking")),
        detailed_monitoring: spec.at("detailedMonitoring").bool().unwrap_or(false),
        metadata_options: read_metadata_options(&spec.at("metadataOptions")),
        nested_virtualization: spec.at("cpuOptions").at("nestedVirtualization").one_of(&SWITCH),
        context: spec.at("context").text(),
    }
}

/// The family: `amiFamily`, else the family of the alias, else Custom. Without an alias `amiFamily`
/// is required; with one it must be the family of the alias or Custom.
pub(super) fn read_family(spec: &Cursor<'_>) -> AmiFamily {
    let family_at = spec.at("amiFamily");
    let families = AmiFamily::ALL.map(|family| (family.as_str(), family));
    let written = family_at.one_of(&families);
    let terms = spec.at("amiSelectorTerms").list();
    let alias = terms.iter().find_map(|term| term.at("alias").raw()?.as_str()?.split_once('@'));
    let of_alias = alias.and_then(|(name, _)| AmiFamily::parse(name));
    match (written, of_alias) {
        (Some(written), Some(alias)) if written != alias && written != AmiFamily::Custom => {
            family_at.error(format!(
                "found {:?}, allowed beside the alias in amiSelectorTerms: {}, Custom",
                written.as_str(),
                alias.as_str()
            ));
        }
        (None, None) if spec.exists() && !family_at.exists() && alias.is_none() => {
            family_at.error("missing, but required when amiSelectorTerms has no alias");
        }
        _ => {}
    }
    written.or(of_alias).unwrap_or(AmiFamily::Custom)
}

fn check_identity(spec: &Cursor<'_>) {
    let (role, profile) = (spec.at("role"), spec.at("instanceProfile"));
    for at in [&role, &profile].into_iter().filter(|at| at.exists()) {
        let _ = at.required_str();
    }
    if role.exists() == profile.exists() {
        let found = if role.exists() { "both" } else { "neither" };
        spec.error(format!("found {found} of role and instanceProfile, allowed: exactly one"));
    }
}

fn identity(spec: &Cursor<'_>) -> InstanceIdentity {
    match spec.at("instanceProfile").text() {
        Some(profile) => InstanceIdentity::Profile(profile),
        None => InstanceIdentity::Role(spec.at("role").text().unwrap_or_default()),
    }
}

/// Tags of a resource at most, of which the system sets some (Amazon EC2 User Guide, "Tag restrictions").
const MOST_TAGS: usize = 50;

/// Tags that the system sets: the owned ones, the cluster's, `Name` and those of launches.
const SYSTEM_TAGS: usize = 10;

/// Characters of a key and of a value at most.
const TAG_CHARS: [usize; 2] = [128, 256];

fn check_tags(at: &Cursor<'_>) {
    let tags = at.map();
    if tags.len() > MOST_TAGS - SYSTEM_TAGS {
        let most = MOST_TAGS - SYSTEM_TAGS;
        at.error(format!(
            "{} tags, allowed: at most {most}, because EC2 has {MOST_TAGS} of which some are ours",
            tags.len()
        ));
    }
    for (key, value) in tags {
        check_tag_bounds(key, &value);
        if key.is_empty() || key.starts_with("kubernetes.io/cluster") || OWN_TAGS.contains(&key) {
            value.error("this tag is set by the system and may not be given; remove it");
        }
    }
}

fn check_tag_bounds(key: &str, value: &Cursor<'_>) {
    let [key_chars, value_chars] =
        [key.chars().count(), value.raw().and_then(|raw| raw.as_str()).map_or(0, |text| text.chars().count())];
    let [most_of_key, most_of_value] = TAG_CHARS;
    if key.get(..4).is_some_and(|prefix| prefix.eq_ignore_ascii_case("aws:")) {
        value.error("keys that begin with aws: are reserved by EC2; choose another one");
    }
    if key_chars > most_of_key {
        value.error(format!("its key has {key_chars} characters, allowed by EC2: at most {most_of_key}"));
    }
    if value_chars > most_of_value {
        value.error(format!("{value_chars} characters, allowed by EC2: at most {most_of_value}"));
    }
}

fn read_count(at: &Cursor<'_>) -> Option<i32> {
    at.int_within(0, i64::from(i32::MAX)).and_then(|count| i32::try_from(count).ok())
}

/// `metadataOptions`; a field that is absent has the default of the CustomResourceDefinition.
fn read_metadata_options(at: &Cursor<'_>) -> MetadataOptions {
    let default = MetadataOptions::default();
    let tokens = at.at("httpTokens").one_of(&TOKENS);
    let hops = at.at("httpPutResponseHopLimit").int_within(1, 64).and_then(|hops| i32::try_from(hops).ok());
    MetadataOptions {
        http_endpoint: at.at("httpEndpoint").one_of(&SWITCH).unwrap_or(default.http_endpoint),
        http_protocol_ipv6: at.at("httpProtocolIPv6").one_of(&SWITCH).unwrap_or(default.http_protocol_ipv6),
        http_put_response_hop_limit: hops.unwrap_or(default.http_put_response_hop_limit),
        http_tokens_required: tokens.unwrap_or(default.http_tokens_required),
    }
}
