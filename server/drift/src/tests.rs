use super::*;
use model::{InstanceTypeName, MicroUsd, Operator, Resources, Zone};

const HOUR: i64 = 3_600_000;

fn text(value: &str) -> Text {
    Text::from(value)
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| (text(key), text(value))).collect()
}

fn hash(hash: &str, version: &str) -> VersionedHash {
    (text(hash), text(version))
}

fn offering(zone: &str, capacity_type: CapacityType, own: &[(&str, &str)]) -> Offering {
    Offering {
        zone: Zone::from(zone),
        capacity_type,
        price: MicroUsd(1),
        estimated: false,
        available: false,
        reservation: None,
        labels: labels(own),
    }
}

fn catalogue(name: &str, offerings: Vec<Offering>) -> Catalogue {
    let kind = InstanceType {
        name: InstanceTypeName::from(name),
        labels: Requirements::new(),
        capacity: Resources::new(),
        allocatable: Resources::new(),
        exotic: false,
        burstable: None,
        offerings,
    };
    Catalogue { types: vec![kind], offering_keys: Vec::new() }
}

/// Everything that one comparison reads. The NodeClaim is an on-demand `m5.large` in zone `a` that is an hour old, and
/// nothing differs.
struct Comparison {
    claim_labels: Labels,
    age: i64,
    claim_karpenter: Option<VersionedHash>,
    claim_own: Option<VersionedHash>,
    claim_class: Option<VersionedHash>,
    image: Option<Text>,
    condition: Option<(Text, Text)>,
    karpenter: Option<VersionedHash>,
    own: Option<VersionedHash>,
    class: Option<VersionedHash>,
    requirements: Requirements,
    pool_labels: Labels,
    catalogue: Catalogue,
    images: Vec<Text>,
}

impl Default for Comparison {
    fn default() -> Self {
        Self {
            claim_labels: labels(&[(INSTANCE_TYPE, "m5.large"), (ZONE, "a"), (CAPACITY_TYPE, "on-demand")]),
            age: HOUR,
            claim_karpenter: None,
            claim_own: None,
            claim_class: None,
            image: None,
            condition: None,
            karpenter: None,
            own: None,
            class: None,
            requirements: Requirements::new(),
            pool_labels: Labels::new(),
            catalogue: catalogue("m5.large", vec![offering("a", CapacityType::OnDemand, &[])]),
            images: Vec::new(),
        }
    }
}

impl Comparison {
    fn drift(&self) -> Option<Drift> {
        let claim = self.claim();
        detect(&claim, &self.pool(), Timestamp::from_millis(self.age))
    }

    fn claim(&self) -> DriftClaim<'_> {
        DriftClaim {
            labels: &self.claim_labels,
            created: Some(Timestamp::from_millis(0)),
            karpenter_hash: self.claim_karpenter.as_ref(),
            own_hash: self.claim_own.as_ref(),
            class_hash: self.claim_class.as_ref(),
            image: self.image.as_ref(),
            condition: self.condition.as_ref().map(|(reason, message)| (reason, message)),
        }
    }

    fn pool(&self) -> DriftPool<'_> {
        DriftPool {
            karpenter_hash: self.karpenter.as_ref(),
            own_hash: self.own.as_ref(),
            requirements: &self.requirements,
            labels: &self.pool_labels,
            catalogue: &self.catalogue,
            class_hash: self.class.as_ref(),
            images: &self.images,
        }
    }

    fn reason(&self) -> Option<String> {
        self.drift().map(|drift| drift.reason.to_string())
    }
}

fn drifted(reason: &str) -> Option<String> {
    Some(reason.to_owned())
}

#[test]
fn a_node_that_matches_has_not_drifted() {
    assert_eq!(Comparison::default().drift(), None);
}

#[test]
fn another_hash_of_the_template_is_drift_at_equal_versions_only() {
    let own = |claim: &str, version: &str| Comparison {
        claim_own: Some(hash(claim, version)),
        own: Some(hash("1", HASH_VERSION)),
        ..Comparison::default()
    };
    assert_eq!(own("2", HASH_VERSION).reason(), drifted("NodePoolDrifted"));
    assert_eq!(own("1", HASH_VERSION).reason(), None);
    assert_eq!(own("2", "fleetwright-0").reason(), None);
    let karpenter = |claim: &str, version: &str| Comparison {
        claim_karpenter: Some(hash(claim, version)),
        karpenter: Some(hash("1", "v3")),
        ..Comparison::default()
    };
    assert_eq!(karpenter("2", "v3").reason(), drifted("NodePoolDrifted"));
    assert_eq!(karpenter("1", "v3").reason(), None);
    assert_eq!(karpenter("2", "v2").reason(), None);
}

#[test]
fn a_node_without_a_hash_is_not_judged_by_it() {
    let adopted = Comparison {
        claim_karpenter: Some(hash("2", "v3")),
        own: Some(hash("1", HASH_VERSION)),
        ..Comparison::default()
    };
    assert_eq!(adopted.drift(), None, "Karpenter's hash is never compared with this server's");
    assert_eq!(Comparison { own: Some(hash("1", HASH_VERSION)), ..Comparison::default() }.drift(), None);
    assert_eq!(Comparison { claim_own: Some(hash("1", HASH_VERSION)), ..Comparison::default() }.drift(), None);
}

fn requiring(key: &str, operator: Operator, values: &[&str]) -> Comparison {
    let requirement = Requirement::new(key, operator, values.iter().map(|value| text(value)));
    Comparison { requirements: [requirement].into_iter().collect(), ..Comparison::default() }
}

#[test]
fn labels_outside_of_the_requirements_are_drift() {
    assert_eq!(requiring(ZONE, Operator::In, &["b", "c"]).reason(), drifted("RequirementsDrifted"));
    assert_eq!(requiring(ZONE, Operator::In, &["a", "b"]).reason(), None);
    assert_eq!(requiring(ZONE, Operator::NotIn, &["a"]).reason(), drifted("RequirementsDrifted"));
    assert_eq!(requiring(ZONE, Operator::DoesNotExist, &[]).reason(), drifted("RequirementsDrifted"));
    let message = requiring(ZONE, Operator::In, &["b"]).drift().map(|drift| drift.message);
    assert_eq!(
        message.as_deref(),
        Some("the NodePool requires topology.kubernetes.io/zone In [b], and the label is \"a\"")
    );
}

#[test]
fn a_new_requirement_on_a_missing_label_is_drift_unless_it_allows_absence() {
    for operator in [Operator::In, Operator::Exists, Operator::Gt] {
        assert_eq!(requiring("team", operator, &["1"]).reason(), drifted("RequirementsDrifted"), "{operator:?}");
    }
    // A well-known label is no exception.
    assert_eq!(requiring("kubernetes.io/arch", Operator::In, &["amd64"]).reason(), drifted("RequirementsDrifted"));
    assert_eq!(requiring("team", Operator::NotIn, &["1"]).reason(), None);
    assert_eq!(requiring("team", Operator::DoesNotExist, &[]).reason(), None);
}

#[test]
fn a_label_with_a_deprecated_key_counts() {
    let mut world = requiring("kubernetes.io/arch", Operator::In, &["amd64"]);
    world.claim_labels.insert(text("beta.kubernetes.io/arch"), text("amd64"));
    assert_eq!(world.drift(), None);
}

#[test]
fn labels_of_the_template_are_left_to_the_hash() {
    let mut world = requiring("team", Operator::In, &["a"]);
    world.pool_labels = labels(&[("team", "a")]);
    assert_eq!(world.drift(), None);
    assert_eq!(requiring(NODECLASS, Operator::In, &["default"]).drift(), None);
    assert_eq!(requiring(NODEPOOL, Operator::In, &["p"]).drift(), None);
}

#[test]
fn a_type_that_the_catalogue_lacks_is_drift_after_an_hour() {
    let world = |age| Comparison { age, catalogue: catalogue("m5.xlarge", Vec::new()), ..Comparison::default() };
    assert_eq!(world(HOUR - 1).reason(), None);
    assert_eq!(world(HOUR).reason(), drifted("InstanceTypeNotFound"));
    let young = world(1_000);
    let next = next_drift(&young.claim(), &young.pool(), Timestamp::from_millis(1_000));
    assert_eq!(next, Some(Timestamp::from_millis(HOUR)));
    let matching = Comparison { age: 1_000, ..Comparison::default() };
    assert_eq!(next_drift(&matching.claim(), &matching.pool(), Timestamp::from_millis(1_000)), None);
}

#[test]
fn nothing_is_missing_from_an_unknown_catalogue() {
    assert_eq!(Comparison { catalogue: Catalogue::default(), ..Comparison::default() }.drift(), None);
}

/// The reason for a node of these labels when `m5.large` has this offering only.
fn with_offering(own: &[(&str, &str)], offering: Offering) -> Option<String> {
    let mut claim_labels = labels(own);
    claim_labels.insert(text(INSTANCE_TYPE), text("m5.large"));
    Comparison { claim_labels, catalogue: catalogue("m5.large", vec![offering]), ..Comparison::default() }.reason()
}

#[test]
fn an_offering_counts_whether_it_is_available_or_not_if_its_labels_agree() {
    let node = [(ZONE, "a"), (CAPACITY_TYPE, "spot")];
    assert_eq!(with_offering(&node, offering("a", CapacityType::Spot, &[])), None);
    assert_eq!(with_offering(&node, offering("b", CapacityType::Spot, &[])), drifted("InstanceTypeNotFound"));
    assert_eq!(with_offering(&node, offering("a", CapacityType::OnDemand, &[])), drifted("InstanceTypeNotFound"));
    let id = |value: &'static str| [("topology.k8s.aws/zone-id", value)];
    let placed = [(ZONE, "a"), (CAPACITY_TYPE, "spot"), ("topology.k8s.aws/zone-id", "z1")];
    assert_eq!(with_offering(&placed, offering("a", CapacityType::Spot, &id("z1"))), None);
    assert_eq!(with_offering(&placed, offering("a", CapacityType::Spot, &id("z2"))), drifted("InstanceTypeNotFound"));
    assert_eq!(with_offering(&node, offering("a", CapacityType::Spot, &id("z2"))), None, "the node has no such label");
}

#[test]
fn a_reserved_node_accepts_on_demand_offerings_and_other_reservations() {
    let node = [(ZONE, "a"), (CAPACITY_TYPE, "reserved"), (RESERVATION_LABELS[0], "cr-1")];
    assert_eq!(with_offering(&node, offering("a", CapacityType::OnDemand, &[])), None);
    let other = offering("a", CapacityType::Reserved, &[(RESERVATION_LABELS[0], "cr-2")]);
    assert_eq!(with_offering(&node, other), None);
    assert_eq!(with_offering(&node, offering("a", CapacityType::Spot, &[])), drifted("InstanceTypeNotFound"));
    assert_eq!(with_offering(&node, offering("b", CapacityType::OnDemand, &[])), drifted("InstanceTypeNotFound"));
}

#[test]
fn another_hash_of_the_node_class_is_drift_at_equal_versions_only() {
    let world = |claim: &str, version: &str| Comparison {
        claim_class: Some(hash(claim, version)),
        class: Some(hash("1", "v5")),
        ..Comparison::default()
    };
    assert_eq!(world("2", "v5").reason(), drifted("NodeClassDrift"));
    assert_eq!(world("1", "v5").reason(), None);
    assert_eq!(world("2", "v4").reason(), None);
}

#[test]
fn an_image_that_the_node_class_does_not_select_is_drift_unless_either_is_unknown() {
    let world = |image: Option<&str>, images: &[&str]| Comparison {
        image: image.map(text),
        images: images.iter().map(|image| text(image)).collect(),
        ..Comparison::default()
    };
    assert_eq!(world(Some("ami-1"), &["ami-2", "ami-3"]).reason(), drifted("AMIDrift"));
    assert_eq!(world(Some("ami-1"), &["ami-2", "ami-1"]).reason(), None);
    assert_eq!(world(Some("ami-1"), &[]).reason(), None);
    assert_eq!(world(None, &["ami-2"]).reason(), None);
    assert_eq!(world(Some(""), &["ami-2"]).reason(), None);
}

#[test]
fn the_first_reason_counts_and_a_given_condition_comes_before_all() {
    let mut world = requiring(ZONE, Operator::In, &["b"]);
    world.claim_own = Some(hash("2", HASH_VERSION));
    world.own = Some(hash("1", HASH_VERSION));
    world.catalogue = catalogue("m5.xlarge", Vec::new());
    world.claim_class = Some(hash("2", "v5"));
    world.class = Some(hash("1", "v5"));
    world.image = Some(text("ami-1"));
    world.images = vec![text("ami-2")];
    world.condition = Some((text("SubnetDrift"), text("why")));
    assert_eq!(world.drift().map(|drift| drift.message), Some(text("why")));
    assert_eq!(world.reason(), drifted("SubnetDrift"));
    world.condition = None;
    assert_eq!(world.reason(), drifted("NodePoolDrifted"));
    world.claim_own = None;
    assert_eq!(world.reason(), drifted("RequirementsDrifted"));
    world.requirements = Requirements::new();
    assert_eq!(world.reason(), drifted("InstanceTypeNotFound"));
    world.age = HOUR - 1;
    assert_eq!(world.reason(), drifted("NodeClassDrift"));
    world.claim_class = None;
    assert_eq!(world.reason(), drifted("AMIDrift"));
}
