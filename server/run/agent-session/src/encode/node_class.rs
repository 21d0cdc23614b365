//! Encodes what the selectors of an EC2NodeClass found, as Karpenter writes it into `status`.

use fleetwright_proto::v1;
use model::node_class::{ImageEntry, NodeClassStatus, ReservationStatus, SecurityGroupEntry, SubnetEntry};
use model::{Requirement, Requirements};
use serde_json::{Map, Value, json};

use super::moment::moment;
use super::requirement::entries;

/// The fields of `status` that have been resolved.
pub(super) fn fields(class: &NodeClassStatus) -> Map<String, Value> {
    let fields = [
        ("subnets", class.subnets.as_ref().map(|all| all.iter().map(subnet).collect())),
        ("securityGroups", class.security_groups.as_ref().map(|all| all.iter().map(security_group).collect())),
        ("amis", class.images.as_ref().map(|all| all.iter().map(image).collect())),
        ("capacityReservations", class.reservations.as_ref().map(|all| all.iter().map(reservation).collect())),
        ("instanceProfile", class.instance_profile.as_ref().map(|name| json!(&**name))),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn subnet(entry: &SubnetEntry) -> Value {
    let mut value = json!({ "id": &*entry.id, "zone": entry.zone.as_ref() });
    if let Some(zone_id) = &entry.zone_id {
        value["zoneID"] = json!(&**zone_id);
    }
    value
}

fn security_group(entry: &SecurityGroupEntry) -> Value {
    let mut value = json!({ "id": &*entry.id });
    if !entry.name.is_empty() {
        value["name"] = json!(&*entry.name);
    }
    value
}

fn image(entry: &ImageEntry) -> Value {
    let mut value = json!({ "id": &*entry.id, "requirements": requirements(&entry.requirements) });
    if !entry.name.is_empty() {
        value["name"] = json!(&*entry.name);
    }
    if entry.deprecated {
        value["deprecated"] = json!(true);
    }
    value
}

/// The requirements, shorter keys first and equally long ones by name (Karpenter: the order in `status.amis`).
fn requirements(requirements: &Requirements) -> Value {
    let mut sorted: Vec<&Requirement> = requirements.iter().collect();
    sorted.sort_by_key(|requirement| (requirement.key().len(), requirement.key().clone()));
    sorted.into_iter().flat_map(entries).map(requirement).collect()
}

fn requirement(entry: v1::ClaimRequirement) -> Value {
    let mut value = json!({ "key": entry.key, "operator": entry.operator });
    if !entry.values.is_empty() {
        value["values"] = json!(entry.values);
    }
    value
}

fn reservation(status: &ReservationStatus) -> Value {
    let entry = &status.entry;
    let mut value = json!({
        "id": &*entry.id,
        "availabilityZone": entry.zone.as_ref(),
        "instanceType": entry.instance_type.as_ref(),
        "instanceMatchCriteria": &*status.instance_match_criteria,
        "ownerID": &*status.owner_id,
        "reservationType": &*entry.reservation_type,
        "interruptible": entry.interruptible,
        "state": if entry.expiring { "expiring" } else { "active" },
    });
    if let Some(end) = status.end {
        value["endTime"] = json!(moment(end));
    }
    value
}

#[cfg(test)]
mod tests {
    use manifests::karpenter::NodeClassManifest;
    use manifests::{Cursor, ObjectLocation, Problems};
    use model::node_class::ReservationEntry;
    use model::{Operator, Text, Timestamp};

    use super::*;

    fn is(key: &str, operator: Operator, values: &[&str]) -> Requirement {
        Requirement::new(key, operator, values.iter().map(|value| Text::from(*value)))
    }

    fn class() -> NodeClassStatus {
        let arch = is("kubernetes.io/arch", Operator::In, &["amd64"]);
        let gpu = is("karpenter.k8s.aws/instance-gpu-count", Operator::DoesNotExist, &[]);
        let accelerator = is("karpenter.k8s.aws/instance-accelerator-count", Operator::Exists, &[]);
        let image = |id: &str, name: &str, deprecated, requirements| ImageEntry {
            id: id.into(),
            name: name.into(),
            deprecated,
            requirements,
        };
        let reservation = |id: &str, expiring, end| ReservationStatus {
            entry: ReservationEntry {
                id: id.into(),
                zone: "us-east-1a".into(),
                instance_type: "m7g.large".into(),
                expiring,
                reservation_type: if expiring { "capacity-block" } else { "default" }.into(),
                interruptible: expiring,
                count: None,
            },
            instance_match_criteria: "targeted".into(),
            owner_id: "123456789012".into(),
            end,
        };
        let subnet = |id: &str, zone_id| SubnetEntry { id: id.into(), zone: "us-east-1a".into(), zone_id };
        NodeClassStatus {
            subnets: Some(vec![subnet("subnet-0b", Some("use1-az1".into())), subnet("subnet-0a", None)]),
            security_groups: Some(vec![
                SecurityGroupEntry { id: "sg-0a".into(), name: "nodes".into() },
                SecurityGroupEntry { id: "sg-0b".into(), name: Text::default() },
            ]),
            images: Some(vec![
                image("ami-0b", "new", false, Requirements::from_iter([accelerator, gpu, arch])),
                image("ami-0a", "", true, Requirements::default()),
            ]),
            reservations: Some(vec![
                reservation("cr-0a", false, None),
                reservation("cr-0b", true, Some(Timestamp::from_millis(86_400_000))),
            ]),
            instance_profile: Some("profile-1".into()),
        }
    }

    #[test]
    fn the_status_has_the_fields_of_karpenter() {
        let reservation = |id: &str, kind: &str, interruptible: bool, state: &str| {
            json!({
                "id": id, "availabilityZone": "us-east-1a", "instanceType": "m7g.large", "instanceMatchCriteria": "targeted",
                "ownerID": "123456789012", "reservationType": kind, "interruptible": interruptible, "state": state,
            })
        };
        let mut block = reservation("cr-0b", "capacity-block", true, "expiring");
        block["endTime"] = json!("1970-01-02T00:00:00Z");
        let expected = json!({
            "subnets": [
                {"id": "subnet-0b", "zone": "us-east-1a", "zoneID": "use1-az1"},
                {"id": "subnet-0a", "zone": "us-east-1a"},
            ],
            "securityGroups": [{"id": "sg-0a", "name": "nodes"}, {"id": "sg-0b"}],
            "amis": [
                {"id": "ami-0b", "name": "new", "requirements": [
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                    {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "DoesNotExist"},
                    {"key": "karpenter.k8s.aws/instance-accelerator-count", "operator": "Exists"},
                ]},
                {"id": "ami-0a", "deprecated": true, "requirements": []},
            ],
            "capacityReservations": [reservation("cr-0a", "default", false, "active"), block],
            "instanceProfile": "profile-1",
        });
        assert_eq!(Value::Object(fields(&class())), expected);
    }

    #[test]
    fn what_was_never_resolved_is_left_out_and_what_was_not_found_is_empty() {
        let class = NodeClassStatus { subnets: Some(Vec::new()), ..NodeClassStatus::default() };
        assert_eq!(Value::Object(fields(&class)), json!({"subnets": []}));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let object = json!({"metadata": {"name": "default"}, "spec": {}, "status": fields(&class())});
        let problems = Problems::default();
        let site = ObjectLocation { source: "status".into(), document: 0, object: None, problems: &problems };
        let read = NodeClassManifest::read(&Cursor::root(&object, &site)).unwrap();
        assert_eq!(read.status, class());
    }
}
