//! Reasons about the node: labels, size, price, limits, readiness.

use std::sync::Arc;

use model::labels::{ARCH, CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, RESERVATION_ID, ZONE};
use model::plan::ReasonCode;
use model::{
    CapacityType, DaemonSet, Effect, HostPort, Labels, MicroUsd, Millis, NotReady, Operator, Requirement, Reservation,
    Resources, Text, Timestamp, VolumeAlternatives,
};

use crate::fixture::{Fixture, LARGE, SMALL, asks, near, pool, resources, selecting, taint};

#[test]
fn a_taint_is_named_and_a_toleration_is_suggested() {
    let mut ml = pool("ml");
    ml.taints = vec![taint("dedicated", "ml", Effect::NoSchedule)];
    Fixture::new()
        .pool(ml)
        .pod("web", asks(500, 1))
        .only()
        .because("ml", ReasonCode::Taints, "its taint dedicated=ml:NoSchedule is not tolerated")
        .fits_if(&["it tolerates taint dedicated=ml:NoSchedule of NodePool ml"]);
}

#[test]
fn an_undefined_label_is_named_with_a_suggestion() {
    let mut general = pool("general");
    general.labels = Labels::from([("example.com/disktype".into(), "ssd".into())]);
    let explanation = Fixture::new().pool(general).pod("web", selecting(asks(500, 1), "disktype", "ssd")).only();
    explanation.because(
        "general",
        ReasonCode::Requirements,
        "wants disktype In [ssd], but NodePool general does not define disktype; did you mean example.com/disktype?",
    )
    .fits_if(&["nodeSelector disktype=ssd is dropped", "NodePool general has disktype In [ssd]"]);
}

#[test]
fn conflicting_label_values_are_both_named() {
    let mut general = pool("general");
    general.requirements.add(Requirement::new(ZONE, Operator::In, ["b".into()]));
    let explanation = Fixture::new().pool(general).pod("web", selecting(asks(500, 1), ZONE, "a")).only();
    explanation
        .because(
            "general",
            ReasonCode::Requirements,
            "wants topology.kubernetes.io/zone In [a], but NodePool general has topology.kubernetes.io/zone In [b]",
        )
        .fits_if(&[
            "nodeSelector topology.kubernetes.io/zone=a is dropped",
            "NodePool general has topology.kubernetes.io/zone In [a]",
        ]);
}

#[test]
fn a_mistyped_value_is_listed_with_the_available_values() {
    let explanation = Fixture::new().pool(pool("general")).pod("web", selecting(asks(500, 1), ARCH, "arm46")).only();
    // Both arm64 and amd64 have other digits than arm46, so there is no suggestion; the values are
    // listed instead.
    explanation.because(
        "general",
        ReasonCode::Requirements,
        "wants kubernetes.io/arch In [arm46], but no instance type of the NodePool has it: they have amd64 and arm64",
    )
    .fits_if(&["nodeSelector kubernetes.io/arch=arm46 is dropped"]);
}

#[test]
fn the_nearest_type_is_named_with_its_missing_amounts() {
    // large has 7.91 cpu and 14Gi: 9 − 7.91 = 1.09 cpu are missing, memory is sufficient.
    Fixture::new()
        .pool(pool("general"))
        .pod("big", asks(9000, 1))
        .only()
        .because(
            "general",
            ReasonCode::Resources,
            "asks for 9 cpu and 1Gi memory; the nearest of 3 types allowed, large, has 7.91 cpu free after DaemonSets: \
             1.09 cpu short",
        )
        .fits_if(&["cpu is at most 7.91"]);
}

#[test]
fn daemonset_overhead_is_subtracted_first() {
    let mut fixture = Fixture::new().pool(pool("general")).pod("agent", asks(110, 0));
    fixture.plan.unschedulable.clear();
    fixture.input.pods.clear();
    let daemon = DaemonSet { namespace: "kube-system".into(), name: "agent".into(), shape: 0, labels: 0 };
    fixture.input.daemons.push(daemon);
    // 7.91 − 0.11 = 7.8 cpu are free on large; 7.9 − 7.8 = 0.1 are missing.
    fixture.pod("big", asks(7900, 1)).only()
        .because(
            "general",
            ReasonCode::Resources,
            "asks for 7.9 cpu and 1Gi memory; the nearest of 3 types allowed, large, has 7.8 cpu free after DaemonSets: \
             100m cpu short",
        )
        .fits_if(&["cpu is at most 7.8"]);
}

#[test]
fn a_larger_type_excluded_by_labels_is_named_with_the_exclusion() {
    let explanation = Fixture::new().pool(pool("general")).pod("big", selecting(asks(5000, 1), ARCH, "arm64")).only();
    // arm has 3.9 cpu: 5 − 3.9 = 1.1 are missing; large would fit but is amd64.
    explanation.because(
        "general",
        ReasonCode::Resources,
        "asks for 5 cpu and 1Gi memory; the only type allowed, arm, has 3.9 cpu free after DaemonSets: 1.1 cpu short; \
         large would be large enough, but the pod wants kubernetes.io/arch In [arm64]",
    )
    .fits_if(&["nodeSelector kubernetes.io/arch=arm64 is dropped", "cpu is at most 3.9"]);
}

#[test]
fn a_device_that_no_type_has_is_reported_as_missing() {
    let mut shape = asks(500, 1);
    shape.requests.set("nvidia.com/gpu", 1);
    let explanation = Fixture::new().pool(pool("general")).pod("train", shape).only();
    assert_eq!(explanation.reasons[0].1, ReasonCode::Resources);
    assert!(explanation.reasons[0].2.contains("1 nvidia.com/gpu short"), "{}", explanation.reasons[0].2);
    explanation.fits_if(&["it asks for no nvidia.com/gpu"]);
}

#[test]
fn limits_count_the_largest_option_of_planned_nodes() {
    let mut gpu = pool("gpu");
    gpu.limits = Resources::from_iter([("cpu", 10_000)]);
    // The planned node may launch as large (8 cpu): 2 of 10 are left. 3 cpu need arm (4): 8 + 4 =
    // 12. Anti-affinity separates the pods.
    let mut second = asks(3000, 1);
    second.pod_anti_affinity = vec![near("first", HOSTNAME)];
    Fixture::new().pool(gpu).pod("first", asks(1000, 1)).pod("second", second).launches(&[SMALL, LARGE], "a", &[0]).only()
        .because(
            "gpu",
            ReasonCode::Limits,
            "of its limit cpu 10 it uses 8 and has 2 left, but the smallest machine that would do, arm, has 4 (it has 0 \
             nodes and 1 planned)",
        )
        .fits_if(&["cpu is at most 1.9", "NodePool gpu's limit cpu is raised from 10 to at least 12"]);
}

#[test]
fn the_limit_on_nodes_counts_planned_nodes() {
    let mut general = pool("general");
    general.limits = Resources::from_iter([("nodes", 1)]);
    Fixture::new()
        .pool(general)
        .pod("first", asks(7500, 1))
        .pod("second", asks(3000, 1))
        .launches(&[LARGE], "a", &[0])
        .only()
        .because("general", ReasonCode::Limits, "its limit of 1 node is reached: 1 exist or are planned")
        .fits_if(&["NodePool general's limit nodes is raised from 1 to at least 2"]);
}

#[test]
fn price_ceilings_are_named_with_the_sufficient_price() {
    let mut general = pool("general");
    general.rules.max_node_price = Some(MicroUsd(30_000));
    // The cheapest type that fits is small on spot, at 0.04.
    Fixture::new()
        .pool(general)
        .pod("web", asks(500, 1))
        .only()
        .because(
            "general",
            ReasonCode::NoOffering,
            "arm, large and small would fit, but no offering is available: 8 offerings dearer than $0.03 per node per hour",
        )
        .fits_if(&["fleetwright.dev/max-node-price is raised to at least 0.04 on NodePool general"]);
}

#[test]
fn a_ceiling_that_leaves_only_small_types_is_reported_as_a_size_obstacle() {
    let mut general = pool("general");
    general.rules.max_node_price = Some(MicroUsd(110_000));
    let explanation = Fixture::new().pool(general).pod("big", asks(5000, 1)).only();
    // small (1.9 cpu) is the only type at 0.11 or less; 5 − 1.9 = 3.1. large on spot costs 0.15.
    explanation.because(
        "general",
        ReasonCode::Resources,
        "asks for 5 cpu and 1Gi memory; the only type allowed, small, has 1.9 cpu free after DaemonSets: 3.1 cpu short; \
         larger machines exceed the NodePool's price or size ceilings",
    );
    explanation.fits_if(&[
        "cpu is at most 1.9",
        "fleetwright.dev/max-node-price is raised to at least 0.15 on NodePool general",
    ]);
}

#[test]
fn waiting_for_spot_names_the_time_left() {
    let mut general = pool("general");
    general.rules.spot_fallback_after = Some(Millis::from_mins(10));
    let mut fixture = Fixture::new().pool(general).pod("web", selecting(asks(500, 1), ZONE, "b"));
    fixture.input.now = Timestamp::from_millis(1_000_000);
    // Created 400 s before: 600 − 400 = 200 s are left. Spot is available in a only.
    fixture.input.pods[0].created = Some(Timestamp::from_millis(600_000));
    let explanation = fixture.only();
    assert_eq!(explanation.reasons[0].1, ReasonCode::NoOffering);
    let wait = "3 offerings on demand for which it waits another 3m20s (spot-fallback-after)";
    assert!(explanation.reasons[0].2.ends_with(wait), "{}", explanation.reasons[0].2);
    explanation.fits_if(&[
        "nodeSelector topology.kubernetes.io/zone=b is dropped",
        "it has waited another 3m20s for spot in NodePool general",
    ]);
}

#[test]
fn unavailable_offerings_are_listed_with_their_zones() {
    let mut general = pool("general");
    let mut catalogue = crate::fixture::catalogue();
    for offering in catalogue.types.iter_mut().flat_map(|t| &mut t.offerings) {
        offering.available = false;
    }
    general.catalogue = Arc::new(catalogue);
    Fixture::new()
        .pool(general)
        .pod("web", selecting(asks(500, 1), CAPACITY_TYPE, "spot"))
        .only()
        .because(
            "general",
            ReasonCode::NoOffering,
            "large and small would fit, but no offering is available: 6 offerings of another capacity type \
             (karpenter.sh/capacity-type In [spot]); 2 offerings without capacity at present",
        )
        .fits_if(&["small can be launched in a (spot) again"]);
}

#[test]
fn min_values_are_reported_with_the_available_count() {
    let mut general = pool("general");
    let key = "node.kubernetes.io/instance-type";
    general.requirements.add(Requirement::new(key, Operator::Exists, []).with_min_values(Some(2)));
    // Only large fits 5 cpu.
    Fixture::new()
        .pool(general)
        .pod("big", asks(5000, 1))
        .only()
        .because(
            "general",
            ReasonCode::MinValues,
            &format!("only 1 different {key} are left to launch from, but minValues asks for 2"),
        )
        .fits_if(&[&format!("minValues of {key} in NodePool general is lowered from 2 to 1")]);
}

#[test]
fn volumes_in_another_zone_are_reported_as_volumes() {
    let zone_c = Requirement::new(ZONE, Operator::In, ["c".into()]);
    let volumes = VolumeAlternatives { any_of: vec![[zone_c].into_iter().collect()], ..VolumeAlternatives::default() };
    Fixture::new().pool(pool("general")).volumes(volumes).pod("db", asks(500, 1)).only()
        .because(
            "general",
            ReasonCode::Volumes,
            "its volumes need topology.kubernetes.io/zone In [c], where NodePool general has no available offering that would fit",
        )
        .fits_if(&["its volumes are not bound to their zone or node"]);
}

#[test]
fn a_missing_claim_is_reported_without_a_pool() {
    let volumes =
        VolumeAlternatives { blocked: Some("claim default/data is missing".into()), ..VolumeAlternatives::default() };
    let explanation = Fixture::new().pool(pool("general")).volumes(volumes).pod("db", asks(500, 1)).only();
    explanation.because("", ReasonCode::Volumes, "claim default/data is missing").fits_if(&[]);
    assert_eq!(explanation.reasons.len(), 1);
}

#[test]
fn a_host_port_used_by_a_daemonset_is_reported() {
    let port = HostPort { ip: "".into(), protocol: "TCP".into(), port: 80 };
    let mut proxy = asks(10, 0);
    proxy.host_ports = vec![port.clone()];
    let mut web = asks(500, 1);
    web.host_ports = vec![port];
    let mut fixture = Fixture::new().pool(pool("general")).pod("proxy", proxy);
    fixture.plan.unschedulable.clear();
    fixture.input.pods.clear();
    let daemon = DaemonSet { namespace: "kube-system".into(), name: "proxy".into(), shape: 0, labels: 0 };
    fixture.input.daemons.push(daemon);
    fixture
        .pod("web", web)
        .only()
        .because(
            "general",
            ReasonCode::HostPorts,
            "host port 80/TCP is taken on every machine that would do by the DaemonSet kube-system/proxy",
        )
        .fits_if(&["host port 80/TCP is dropped"]);
}

#[test]
fn pools_that_are_not_ready_are_reported() {
    let (mut one, mut two) = (pool("one"), pool("two"));
    one.not_ready = Some(NotReady::NodeClass("it does not exist".into()));
    two.not_ready = Some(NotReady::NodePool("it is being deleted".into()));
    Fixture::new()
        .pool(one)
        .pool(two)
        .pod("web", asks(500, 1))
        .only()
        .because("one", ReasonCode::NodeClassNotReady, "EC2NodeClass default: it does not exist")
        .because("two", ReasonCode::NodePoolNotReady, "NodePool two: it is being deleted")
        .fits_if(&["EC2NodeClass default exists and is ready", "NodePool two becomes ready"]);
}

#[test]
fn a_class_is_named_once() {
    let mut one = pool("one");
    one.not_ready = Some(NotReady::NodeClass("there is no EC2NodeClass default".into()));
    Fixture::new().pool(one).pod("web", asks(500, 1)).only().because(
        "one",
        ReasonCode::NodeClassNotReady,
        "there is no EC2NodeClass default",
    );
}

#[test]
fn the_requirement_of_a_pool_that_no_type_satisfies_is_named() {
    let needs = |entries: &[(&str, &str)]| {
        let mut general = pool("general");
        for (key, value) in entries {
            general.requirements.add(Requirement::new(key, Operator::In, [Text::from(*value)]));
        }
        Fixture::new().pool(general).pod("web", asks(500, 1)).only()
    };
    // One edit changes lage into large; arm64 and amd64 have other digits than arm46.
    needs(&[(INSTANCE_TYPE, "lage")]).because(
        "general",
        ReasonCode::Requirements,
        "the NodePool's requirement node.kubernetes.io/instance-type In [lage] excludes every instance type: \
         they have arm, large and small; did you mean large?",
    );
    needs(&[(ARCH, "arm46")]).because(
        "general",
        ReasonCode::Requirements,
        "the NodePool's requirement kubernetes.io/arch In [arm46] excludes every instance type: they have amd64 and arm64",
    );
    // Each alone has a type: large and small are amd64, and arm is arm64.
    needs(&[(ARCH, "amd64"), (INSTANCE_TYPE, "arm")]).because(
        "general",
        ReasonCode::Requirements,
        "the NodePool's requirements kubernetes.io/arch In [amd64] and node.kubernetes.io/instance-type In [arm] \
         exclude every instance type together",
    );
}

#[test]
fn a_zone_without_any_offering_is_named_with_those_that_have_some() {
    let mut general = pool("general");
    general.requirements.add(Requirement::new(ZONE, Operator::In, ["eu-a".into()]));
    Fixture::new().pool(general).pod("web", asks(500, 1)).only().because(
        "general",
        ReasonCode::NoOffering,
        "arm, large and small would fit, but topology.kubernetes.io/zone In [eu-a] has no zone with offerings; \
         these are a and b",
    );
}

#[test]
fn without_a_pool_the_nearest_node_is_named() {
    // 2 − 1.8 = 0.2 cpu are missing on the node.
    Fixture::new()
        .node("n1", "a", resources(1800, 8 << 30))
        .pod("web", asks(2000, 1))
        .only()
        .because("", ReasonCode::NoNodePool, "there is no NodePool, and no existing node takes it")
        .because("", ReasonCode::Resources, "the nearest existing node, n1, misses only 200m cpu (1.8 left)")
        .fits_if(&["cpu is at most 1.8"]);
}

#[test]
fn static_pools_are_ignored() {
    let mut fixed = pool("fixed");
    fixed.replicas = Some(3);
    let explanation = Fixture::new().pool(fixed).pod("web", asks(500, 1)).only();
    assert_eq!(explanation.reasons.len(), 1);
    assert_eq!(explanation.reasons[0].1, ReasonCode::NoNodePool);
}

#[test]
fn an_exhausted_spot_share_is_a_limit() {
    let mut general = pool("general");
    general.rules.spot_max_percent = Some(50);
    // The pool has no node yet: any spot node would be 100 % of it.
    Fixture::new()
        .pool(general)
        .pod("web", selecting(asks(500, 1), CAPACITY_TYPE, "spot"))
        .only()
        .because(
            "general",
            ReasonCode::Limits,
            "only spot would do, and the NodePool keeps at most 50 % of its vCPUs on spot",
        )
        .fits_if(&[
            "nodeSelector karpenter.sh/capacity-type=spot is dropped",
            "NodePool general may run a larger share on spot (spot-max-percent, on-demand-min-nodes)",
        ]);
}

#[test]
fn volumes_are_counted_against_the_attach_limit_of_new_nodes() {
    let mut general = pool("general");
    let mut catalogue = crate::fixture::catalogue();
    for instance in &mut catalogue.types {
        instance.allocatable.set("attachable-volumes-ebs", 1);
    }
    general.catalogue = Arc::new(catalogue);
    let attachments = vec![("ebs".into(), "one".into()), ("ebs".into(), "two".into())];
    let volumes = VolumeAlternatives { attachments, ..VolumeAlternatives::default() };
    Fixture::new()
        .pool(general)
        .volumes(volumes)
        .pod("db", asks(500, 1))
        .only()
        .because(
            "general",
            ReasonCode::Volumes,
            "attaches 2 volumes of ebs, more than any type that would do; small attaches 1",
        )
        .fits_if(&["it attaches at most 1 volume of ebs"]);
}

#[test]
fn an_exhausted_reservation_is_no_offering() {
    let mut general = pool("general");
    let mut catalogue = crate::fixture::catalogue();
    catalogue.offering_keys = vec![RESERVATION_ID.into()];
    let mut reserved = catalogue.types[2].offerings[0].clone();
    reserved.capacity_type = CapacityType::Reserved;
    reserved.price = MicroUsd(0);
    reserved.reservation = Some(Reservation { id: "cr-1".into(), remaining: 1 });
    reserved.labels = Labels::from([(RESERVATION_ID.into(), "cr-1".into())]).into();
    catalogue.types[2].offerings.push(reserved);
    general.catalogue = Arc::new(catalogue);
    let shape = selecting(asks(1500, 1), RESERVATION_ID, "cr-1");
    let mut fixture = Fixture::new().pool(general).pods(2, "web", shape).launches(&[SMALL], "a", &[0]);
    fixture.plan.nodes[0].capacity_type = CapacityType::Reserved;
    fixture.plan.nodes[0].reservation = Some("cr-1".into());
    // None of the 2 + 3 + 3 = 8 ordinary offerings carries the label of the reservation; its own
    // node is planned for the first pod, and 1.9 − 1.5 = 0.4 cpu is left there.
    fixture
        .only()
        .because(
            "general",
            ReasonCode::NoOffering,
            "small would fit, but no offering is available: 8 offerings with other labels; 1 offering whose reservation is used up",
        )
        .fits_if(&["nodeSelector karpenter.k8s.aws/capacity-reservation-id=cr-1 is dropped"]);
}

#[test]
fn cordoned_and_tainted_nodes_are_not_named_as_nearest() {
    let mut fixture = Fixture::new()
        .node("cordoned", "a", resources(1900, 8 << 30))
        .node("tainted", "a", resources(1900, 8 << 30))
        .pod("web", asks(2000, 1));
    fixture.input.nodes[0].unschedulable = true;
    fixture.input.nodes[1].taints = vec![taint("team", "x", Effect::NoSchedule)];
    let explanation = fixture.only();
    assert_eq!(explanation.reasons.len(), 1, "{:?}", explanation.reasons);
    explanation.fits_if(&[]);
}
