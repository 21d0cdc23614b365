use super::*;
use model::node_class::{ImageEntry, ReservationEntry, ReservationStatus, SecurityGroupEntry, SubnetEntry};
use model::{Catalogue, InstanceDetails, InstanceTypeName, MicroUsd, Operator, Requirements, Zone};

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
        catalogue_price: None,
        available: false,
        reservation: None,
        labels: labels(own).into(),
    }
}

fn catalogue(name: &str, offerings: Vec<Offering>) -> Catalogue {
    let kind = InstanceType { name: InstanceTypeName::from(name), offerings, ..InstanceType::default() };
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
    claim_own_class: Option<VersionedHash>,
    image: Option<Text>,
    instance: Option<InstanceDetails>,
    condition: Option<(Text, Text)>,
    karpenter: Option<VersionedHash>,
    own: Option<VersionedHash>,
    class: Option<VersionedHash>,
    own_class: Option<VersionedHash>,
    requirements: Requirements,
    pool_labels: Labels,
    catalogue: Catalogue,
    images: Option<Vec<ImageEntry>>,
    groups: Option<Vec<SecurityGroupEntry>>,
    subnets: Option<Vec<SubnetEntry>>,
    reservations: Option<Vec<ReservationStatus>>,
}

impl Default for Comparison {
    fn default() -> Self {
        Self {
            claim_labels: labels(&[(INSTANCE_TYPE, "m5.large"), (ZONE, "a"), (CAPACITY_TYPE, "on-demand")]),
            age: HOUR,
            claim_karpenter: None,
            claim_own: None,
            claim_class: None,
            claim_own_class: None,
            image: None,
            instance: None,
            condition: None,
            karpenter: None,
            own: None,
            class: None,
            own_class: None,
            requirements: Requirements::new(),
            pool_labels: Labels::new(),
            catalogue: catalogue("m5.large", vec![offering("a", CapacityType::OnDemand, &[])]),
            images: None,
            groups: None,
            subnets: None,
            reservations: None,
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
            own_class_hash: self.claim_own_class.as_ref(),
            image: self.image.as_ref(),
            instance: self.instance.as_ref(),
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
            own_class_hash: self.own_class.as_ref(),
            selected: Selected {
                images: self.images.as_deref(),
                security_groups: self.groups.as_deref(),
                subnets: self.subnets.as_deref(),
                reservations: self.reservations.as_deref(),
            },
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
fn another_hash_of_this_server_s_node_class_is_drift_at_equal_versions_only() {
    let world = |claim: Option<VersionedHash>| Comparison {
        claim_own_class: claim,
        own_class: Some(hash("1", NODE_CLASS_HASH_VERSION)),
        // Karpenter's hash is of another function, whatever its version says.
        class: Some(hash("3", NODE_CLASS_HASH_VERSION)),
        ..Comparison::default()
    };
    assert_eq!(world(Some(hash("2", NODE_CLASS_HASH_VERSION))).reason(), drifted("NodeClassDrift"));
    assert_eq!(world(Some(hash("1", NODE_CLASS_HASH_VERSION))).reason(), None);
    assert_eq!(world(Some(hash("2", "fleetwright-0"))).reason(), None);
    assert_eq!(world(None).reason(), None);
}

fn is(key: &str, operator: Operator, values: &[&str]) -> Requirement {
    Requirement::new(key, operator, values.iter().map(|value| text(value)))
}

fn image(id: &str, requirements: &[Requirement]) -> ImageEntry {
    ImageEntry { id: text(id), name: text(id), deprecated: false, requirements: requirements.iter().cloned().collect() }
}

/// The reason for an `m5.large` of this image, which has no GPU, when the class has `images`.
fn with_images(of_claim: Option<&str>, images: Option<Vec<ImageEntry>>) -> Option<String> {
    let mut known = catalogue("m5.large", vec![offering("a", CapacityType::OnDemand, &[])]);
    let gpu = is("karpenter.k8s.aws/instance-gpu-count", Operator::DoesNotExist, &[]);
    known.types[0].labels =
        [is("kubernetes.io/arch", Operator::In, &["amd64"]), gpu].into_iter().collect::<Requirements>().into();
    Comparison { image: of_claim.map(text), images, catalogue: known, ..Comparison::default() }.reason()
}

#[test]
fn an_image_is_drift_when_the_class_maps_another_one_to_the_instance_type() {
    let arch = |arch| is("kubernetes.io/arch", Operator::In, &[arch]);
    let no_gpu = is("karpenter.k8s.aws/instance-gpu-count", Operator::DoesNotExist, &[]);
    let gpu = is("karpenter.k8s.aws/instance-gpu-count", Operator::Exists, &[]);
    let new = || {
        let standard = image("ami-2", &[arch("amd64"), no_gpu.clone()]);
        Some(vec![image("ami-arm", &[arch("arm64")]), image("ami-gpu", &[arch("amd64"), gpu.clone()]), standard])
    };
    assert_eq!(with_images(Some("ami-2"), new()), None);
    assert_eq!(with_images(Some("ami-1"), new()), drifted("AMIDrift"));
    // Both are selected, for other instance types.
    assert_eq!(with_images(Some("ami-arm"), new()), drifted("AMIDrift"));
    // The first image that the type boots counts.
    let two = Some(vec![image("ami-2", &[arch("amd64")]), image("ami-1", &[arch("amd64")])]);
    assert_eq!(with_images(Some("ami-1"), two.clone()), drifted("AMIDrift"));
    assert_eq!(with_images(Some("ami-2"), two), None);
}

#[test]
fn an_image_does_not_drift_while_it_or_the_images_of_its_instance_type_are_unknown() {
    let amd64 = || Some(vec![image("ami-2", &[is("kubernetes.io/arch", Operator::In, &["amd64"])])]);
    assert_eq!(with_images(Some("ami-1"), amd64()), drifted("AMIDrift"));
    assert_eq!(with_images(None, amd64()), None);
    assert_eq!(with_images(Some(""), amd64()), None);
    assert_eq!(with_images(Some("ami-1"), None), None);
    assert_eq!(with_images(Some("ami-1"), Some(Vec::new())), None);
    // The lookup of amd64 failed, or there is no such image: nothing can replace the node.
    let arm64 = Some(vec![image("ami-2", &[is("kubernetes.io/arch", Operator::In, &["arm64"])])]);
    assert_eq!(with_images(Some("ami-1"), arm64), None);
    let unknown_type = Comparison {
        image: Some(text("ami-1")),
        images: amd64(),
        catalogue: catalogue("m5.xlarge", Vec::new()),
        age: HOUR - 1,
        ..Comparison::default()
    };
    assert_eq!(unknown_type.reason(), None);
}

/// An instance in `subnet-1` with two security groups, and the class that selects them.
fn placed() -> Comparison {
    Comparison {
        instance: Some(InstanceDetails {
            image: text("ami-1"),
            subnet: text("subnet-1"),
            security_groups: vec![text("sg-1"), text("sg-2")],
            reservation: None,
        }),
        groups: Some(groups(&["sg-2", "sg-1"])),
        subnets: Some(subnets(&["subnet-2", "subnet-1"])),
        reservations: Some(Vec::new()),
        ..Comparison::default()
    }
}

fn groups(ids: &[&str]) -> Vec<SecurityGroupEntry> {
    ids.iter().map(|id| SecurityGroupEntry { id: text(id), name: text("") }).collect()
}

fn subnets(ids: &[&str]) -> Vec<SubnetEntry> {
    ids.iter().map(|id| SubnetEntry { id: text(id), zone: Zone::from("a"), zone_id: None }).collect()
}

fn message(world: &Comparison) -> String {
    world.drift().map(|drift| format!("{}: {}", drift.reason, drift.message)).unwrap_or_default()
}

#[test]
fn security_groups_drift_when_the_sets_differ() {
    let with = |selected: Vec<SecurityGroupEntry>| Comparison { groups: Some(selected), ..placed() };
    assert_eq!(with(groups(&["sg-2", "sg-1"])).drift(), None);
    assert_eq!(
        message(&with(groups(&["sg-3", "sg-1"]))),
        "SecurityGroupDrift: the instance has security groups sg-1, sg-2, and the EC2NodeClass selects sg-1, sg-3: \
         sg-2 is not selected, sg-3 is missing"
    );
    // One was added to the instance by hand.
    assert!(message(&with(groups(&["sg-1"]))).ends_with("selects sg-1: sg-2 is not selected"));
    assert!(message(&with(groups(&["sg-1", "sg-2", "sg-3"]))).ends_with("selects sg-1, sg-2, sg-3: sg-3 is missing"));
}

#[test]
fn a_subnet_drifts_when_the_class_does_not_select_it() {
    let with = |selected: &[&str]| Comparison { subnets: Some(subnets(selected)), ..placed() };
    assert_eq!(with(&["subnet-1"]).drift(), None);
    assert_eq!(
        message(&with(&["subnet-3", "subnet-2"])),
        "SubnetDrift: the instance is in subnet-1, and the EC2NodeClass selects subnet-2, subnet-3"
    );
    let many: Vec<String> = (10..20).map(|number| format!("subnet-{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(message(&with(&many)).ends_with("subnet-16, subnet-17, 2 more"), "{}", message(&with(&many)));
}

#[test]
fn what_is_unknown_of_groups_and_subnet_drifts_nothing() {
    let differs = || Comparison { groups: Some(groups(&["sg-3"])), subnets: Some(subnets(&["subnet-3"])), ..placed() };
    assert_eq!(differs().reason(), drifted("SecurityGroupDrift"));
    let unknown: [fn(&mut Comparison); 6] = [
        |world| world.instance = None,
        |world| world.instance = Some(InstanceDetails::default()),
        |world| (world.groups, world.subnets) = (None, None),
        |world| (world.groups, world.subnets) = (Some(Vec::new()), Some(Vec::new())),
        |world| (world.groups, world.subnets) = (None, Some(Vec::new())),
        |world| (world.groups, world.subnets) = (Some(Vec::new()), None),
    ];
    for (number, change) in unknown.into_iter().enumerate() {
        let mut world = differs();
        change(&mut world);
        assert_eq!(world.drift(), None, "case {number}");
    }
}

fn reservation(id: &str) -> ReservationStatus {
    ReservationStatus {
        entry: ReservationEntry {
            id: text(id),
            zone: Zone::from("a"),
            instance_type: InstanceTypeName::from("m5.large"),
            expiring: false,
            reservation_type: text("default"),
            interruptible: false,
            count: Some(1),
        },
        instance_match_criteria: text("targeted"),
        owner_id: text("1"),
        end: None,
    }
}

/// An instance with this label that runs in `found`.
fn reserved(capacity_type: &str, found: Option<&str>, selected: Option<&[&str]>) -> Comparison {
    let mut world = placed();
    world.claim_labels.insert(text(CAPACITY_TYPE), text(capacity_type));
    let details = world.instance.take().unwrap();
    world.instance = Some(InstanceDetails { reservation: found.map(text), ..details });
    world.reservations = selected.map(|ids| ids.iter().map(|id| reservation(id)).collect());
    world
}

#[test]
fn a_reserved_instance_drifts_when_the_class_does_not_select_its_reservation() {
    assert_eq!(reserved("reserved", Some("cr-1"), Some(&["cr-1"])).drift(), None);
    assert_eq!(
        message(&reserved("reserved", Some("cr-1"), Some(&["cr-3", "cr-2"]))),
        "CapacityReservationDrift: the instance is in capacity reservation cr-1, and the EC2NodeClass selects cr-2, cr-3"
    );
    assert!(message(&reserved("reserved", Some("cr-1"), Some(&[]))).ends_with("selects none"));
    assert_eq!(reserved("reserved", Some("cr-1"), None).drift(), None, "the reservations are unknown");
}

#[test]
fn an_instance_whose_reservation_has_ended_runs_on() {
    assert_eq!(reserved("reserved", None, Some(&[])).drift(), None);
    assert_eq!(reserved("on-demand", Some("cr-1"), Some(&[])).drift(), None);
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
    world.images = Some(vec![image("ami-2", &[])]);
    world.groups = Some(groups(&["sg-3"]));
    world.subnets = Some(subnets(&["subnet-3"]));
    world.instance = reserved("reserved", Some("cr-1"), None).instance;
    world.claim_labels.insert(text(CAPACITY_TYPE), text("reserved"));
    world.reservations = Some(Vec::new());
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
    world.catalogue = catalogue("m5.large", vec![offering("a", CapacityType::OnDemand, &[])]);
    assert_eq!(world.reason(), drifted("AMIDrift"));
    world.images = None;
    assert_eq!(world.reason(), drifted("SecurityGroupDrift"));
    world.groups = None;
    assert_eq!(world.reason(), drifted("SubnetDrift"));
    world.subnets = None;
    assert_eq!(world.reason(), drifted("CapacityReservationDrift"));
    world.reservations = None;
    assert_eq!(world.reason(), None);
}
