use super::*;
use crate::nodeclass::testing::{parts, query, tags};
use aws_sdk_ec2::types::{SecurityGroup, Subnet};
use model::ClusterFacts;
use model::node_class::{BlockDevice, EbsVolume, NodeClassSpec, ReservationEntry};
use std::sync::Arc;

const EKS: EksCluster = EksCluster { service_cidr: None, requires_access_entries: false };

/// Everything that a validation reads, in a state that passes.
struct Case {
    query: NodeClassQuery,
    conditions: BTreeMap<&'static str, Resolution>,
    eks: Result<Option<EksCluster>, CallError>,
    access: AccessEntry,
    session: Option<CallError>,
    is_confined: bool,
    subnets: Vec<FoundSubnet>,
    groups: Vec<FoundGroup>,
    reservations: Vec<ReservationStatus>,
}

impl Case {
    fn new() -> Self {
        let subnet = Subnet::builder().subnet_id("subnet-a").availability_zone("eu-west-1a").vpc_id("vpc-1").build();
        let needed = [AMIS_READY, INSTANCE_PROFILE_READY, SECURITY_GROUPS_READY, SUBNETS_READY];
        Self {
            query: query(),
            conditions: needed.map(|name| (name, Resolution::Met)).into(),
            eks: Ok(None),
            access: AccessEntry::NotChecked,
            session: None,
            is_confined: false,
            subnets: super::super::subnets::read(&subnet).into_iter().collect(),
            groups: vec![group("sg-1", "vpc-1")],
            reservations: Vec::new(),
        }
    }

    fn spec(mut self, change: impl FnOnce(&mut NodeClassSpec)) -> Self {
        change(Arc::make_mut(&mut self.query.spec));
        self
    }

    fn facts(mut self, change: impl FnOnce(&mut ClusterFacts)) -> Self {
        change(Arc::make_mut(&mut self.query.facts));
        self
    }

    fn condition(&self) -> Resolution {
        let validation = Validation {
            query: &self.query,
            conditions: &self.conditions,
            eks: self.eks.as_ref().map(Option::as_ref),
            access: &self.access,
            session: self.session.as_ref(),
            is_confined: self.is_confined,
            subnets: &self.subnets,
            groups: &self.groups,
            reservations: &self.reservations,
        };
        validation.condition()
    }
}

fn group(id: &str, vpc: &str) -> FoundGroup {
    super::super::security_groups::read(&SecurityGroup::builder().group_id(id).vpc_id(vpc).build()).unwrap()
}

fn is_missing(case: &Case, reason: &str, part: &str) {
    let condition = case.condition();
    assert!(matches!(condition, Resolution::Missing { .. }), "{condition:?}");
    assert_eq!(parts(&condition).0, reason);
    assert!(parts(&condition).1.contains(part), "{condition:?}");
}

fn is_unknown(case: &Case, reason: &str, part: &str) {
    let condition = case.condition();
    assert!(matches!(condition, Resolution::Unknown { .. }), "{condition:?}");
    assert_eq!(parts(&condition).0, reason);
    assert!(parts(&condition).1.contains(part), "{condition:?}");
}

#[test]
fn a_complete_node_class_passes() {
    assert_eq!(Case::new().condition(), Resolution::Met);
}

#[test]
fn families_that_are_not_supported_are_named() {
    for family in [AmiFamily::Al2, AmiFamily::Windows2019, AmiFamily::Windows2022, AmiFamily::Windows2025] {
        let case = Case::new().spec(|spec| spec.ami_family = family);
        is_missing(&case, "UnsupportedAMIFamily", &format!("the image family {} is not supported", family.as_str()));
    }
}

#[test]
fn a_snapshot_is_refused_unless_sessions_of_the_cluster_confine_it() {
    let mut case = Case::new().spec(|spec| {
        let ebs = Some(EbsVolume { snapshot_id: Some("snap-0a".into()), ..EbsVolume::default() });
        spec.block_devices = vec![BlockDevice { ebs, ..BlockDevice::default() }];
    });
    is_missing(&case, "SnapshotNotConfined", "names the snapshot snap-0a");
    case.is_confined = true;
    assert_eq!(case.condition(), Resolution::Met);
}

#[test]
fn placement_groups_and_capacity_blocks_are_refused() {
    let case = Case::new().spec(|spec| spec.placement_group = true);
    is_missing(&case, "UnsupportedPlacementGroup", "spec.placementGroupSelector is not supported");
    let mut case = Case::new();
    let entry = ReservationEntry {
        id: "cr-1".into(),
        zone: "eu-west-1a".into(),
        instance_type: "p5.48xlarge".into(),
        expiring: false,
        reservation_type: CAPACITY_BLOCK.into(),
        interruptible: false,
        count: Some(1),
    };
    let of_type = |kind: &str| ReservationStatus {
        entry: ReservationEntry { reservation_type: kind.into(), ..entry.clone() },
        instance_match_criteria: "targeted".into(),
        owner_id: "111122223333".into(),
        end: None,
    };
    case.reservations = vec![of_type("default")];
    assert_eq!(case.condition(), Resolution::Met);
    case.reservations.push(of_type(CAPACITY_BLOCK));
    is_missing(&case, "UnsupportedCapacityBlock", "must not select cr-1");
}

#[test]
fn a_cluster_without_a_session_of_its_role_launches_nothing() {
    let with = |class, message: &str| Case {
        session: Some(CallError::new("sts:AssumeRole", class, "Code", message)),
        ..Case::new().facts(|facts| facts.endpoint = Text::default())
    };
    is_missing(&with(CallErrorClass::NotAssumable, "the sentence"), "RoleNotAssumable", "the sentence");
    is_unknown(&with(CallErrorClass::Unclear, "timeout"), "ServiceUnavailable", "sts:AssumeRole got no usable answer");
}

#[test]
fn al2023_needs_a_service_cidr_from_the_agent_or_from_eks() {
    let without = || Case::new().facts(|facts| facts.service_cidr = None);
    let reason = "ClusterCIDRResolutionFailed";
    is_missing(&without(), reason, "of cluster c1 is not known");
    let with_eks = |eks| Case { eks, ..without() };
    let known = EksCluster { service_cidr: Some("10.100.0.0/16".into()), ..EKS };
    assert_eq!(with_eks(Ok(Some(known))).condition(), Resolution::Met);
    is_missing(&with_eks(Ok(Some(EKS))), reason, "EKS does not show it");
    let denied = CallError::new("eks:DescribeCluster", CallErrorClass::Denied, "AccessDeniedException", "no");
    is_missing(&with_eks(Err(denied)), reason, "lack the right eks:DescribeCluster");
    let throttled = CallError::new("eks:DescribeCluster", CallErrorClass::Throttled, "ThrottlingException", "slow");
    is_unknown(&with_eks(Err(throttled)), reason, "AWS throttles eks:DescribeCluster");
    let bottlerocket = without().spec(|spec| spec.ami_family = AmiFamily::Bottlerocket);
    assert_eq!(bottlerocket.condition(), Resolution::Met);
}

#[test]
fn an_unreachable_eks_stops_nothing_when_the_agent_reports_the_service_cidr() {
    let throttled = CallError::new("eks:DescribeCluster", CallErrorClass::Throttled, "ThrottlingException", "slow");
    assert_eq!(Case { eks: Err(throttled), ..Case::new() }.condition(), Resolution::Met);
}

#[test]
fn facts_that_the_agent_has_not_reported_are_named() {
    let case = Case::new().facts(|facts| facts.certificate_authority = Text::default());
    is_unknown(&case, "ClusterFactsMissing", "has not reported its certificate authority, which");
    let case = case.facts(|facts| facts.endpoint = Text::default());
    is_unknown(&case, "ClusterFactsMissing", "the API server's URL and its certificate authority");
    let custom = case.spec(|spec| spec.ami_family = AmiFamily::Custom);
    assert_eq!(custom.condition(), Resolution::Met);
}

#[test]
fn kubelet_settings_are_checked() {
    let case = Case::new().spec(|spec| spec.kubelet.max_pods = Some(-1));
    is_missing(&case, "InvalidKubeletConfiguration", "spec.kubelet.maxPods: found -1");
    let case = Case::new().spec(|spec| {
        spec.ami_family = AmiFamily::Bottlerocket;
        spec.kubelet.pods_per_core = Some(4);
    });
    is_missing(&case, "UnsupportedKubeletConfiguration", "spec.kubelet.podsPerCore");
}

#[test]
fn a_dependency_that_is_false_comes_before_one_that_is_unknown() {
    let mut case = Case::new();
    case.conditions.insert(AMIS_READY, unknown("ServiceUnavailable", "x"));
    is_unknown(&case, "DependenciesNotReady", "AMIsReady is unknown");
    case.conditions.insert(SUBNETS_READY, missing("SubnetsNotFound", "x"));
    is_missing(&case, "DependenciesNotReady", "SubnetsReady is false");
}

#[test]
fn reserved_tags_are_refused() {
    for key in [
        "",
        "eks:eks-cluster-name",
        "karpenter.sh/nodepool",
        "karpenter.sh/nodeclaim",
        "karpenter.k8s.aws/ec2nodeclass",
        "kubernetes.io/cluster/c1",
        "fleetwright.dev/managed",
    ] {
        let case = Case::new().spec(|spec| spec.tags = tags(&[(key, "x")]));
        is_missing(&case, "TagValidationFailed", &format!("{key:?}"));
    }
    let case = Case::new().spec(|spec| spec.tags = tags(&[("team", "web"), ("karpenter.sh/nodepools", "x")]));
    assert_eq!(case.condition(), Resolution::Met);
}

#[test]
fn a_security_group_of_another_vpc_is_named() {
    let mut case = Case::new();
    case.groups.push(group("sg-2", "vpc-2"));
    is_missing(
        &case,
        "SecurityGroupSubnetVPCMismatch",
        "security group sg-2 is in vpc-2, and the subnets are in vpc-1",
    );
}

#[test]
fn a_missing_access_entry_names_the_command_that_makes_it() {
    let arn = "arn:aws:iam::111122223333:role/nodes";
    let case = Case { access: AccessEntry::Missing(arn.into()), ..Case::new() };
    let command = format!("aws eks create-access-entry --cluster-name c1 --principal-arn {arn} --type EC2_LINUX");
    is_missing(&case, "AccessEntryNotFound", &command);
    assert_eq!(Case { access: AccessEntry::Present, ..Case::new() }.condition(), Resolution::Met);
}
