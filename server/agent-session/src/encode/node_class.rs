//! Encodes the status of an EC2NodeClass, as Karpenter writes it.

use model::node_class::{ImageEntry, NodeClassStatus, ReservationStatus, SecurityGroupEntry, SubnetEntry};
use model::{Operator, Requirement, Text};
use serde_json::{Map, Value, json};

use super::status::moment;

/// The fields of `status` that were resolved.
pub(super) fn fields(status: &NodeClassStatus) -> Map<String, Value> {
    let lists = [
        ("subnets", status.subnets.as_ref().map(|subnets| subnets.iter().map(subnet).collect())),
        ("securityGroups", status.security_groups.as_ref().map(|groups| groups.iter().map(security_group).collect())),
        ("amis", status.images.as_ref().map(|images| images.iter().map(image).collect())),
        ("capacityReservations", status.reservations.as_ref().map(|found| found.iter().map(reservation).collect())),
        ("instanceProfile", status.instance_profile.as_ref().map(|name| Value::from(&**name))),
    ];
    lists.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?))).collect()
}

fn subnet(subnet: &SubnetEntry) -> Value {
    let mut entry = json!({ "id": &*subnet.id, "zone": subnet.zone.as_ref() });
    if let Some(id) = &subnet.zone_id {
        entry["zoneID"] = json!(&**id);
    }
    entry
}

fn security_group(group: &SecurityGroupEntry) -> Value {
    json!({ "id": &*group.id, "name": &*group.name })
}

fn image(image: &ImageEntry) -> Value {
    let mut requirements: Vec<&Requirement> = image.requirements.iter().collect();
    // Karpenter's order.
    requirements.sort_by_key(|requirement| (requirement.key().len(), requirement.key().clone()));
    let mut entry = json!({
        "id": &*image.id,
        "name": &*image.name,
        "requirements": requirements.into_iter().map(requirement).collect::<Value>(),
    });
    if image.deprecated {
        entry["deprecated"] = json!(true);
    }
    entry
}

fn requirement(requirement: &Requirement) -> Value {
    let operator = requirement.operator();
    let values: Vec<&Text> = match operator {
        Operator::NotIn => requirement.excluded_values().collect(),
        _ => requirement.finite_values().into_iter().flatten().collect(),
    };
    let mut entry = json!({ "key": &**requirement.key(), "operator": operator.as_str() });
    if !values.is_empty() {
        entry["values"] = values.iter().map(|value| &***value).collect();
    }
    entry
}

fn reservation(reservation: &ReservationStatus) -> Value {
    let entry = &reservation.entry;
    let mut value = json!({
        "availabilityZone": entry.zone.as_ref(),
        "id": &*entry.id,
        "instanceMatchCriteria": &*reservation.instance_match_criteria,
        "instanceType": entry.instance_type.as_ref(),
        "interruptible": entry.interruptible,
        "ownerID": &*reservation.owner_id,
        "reservationType": &*entry.reservation_type,
        "state": if entry.expiring { "expiring" } else { "active" },
    });
    if let Some(end) = reservation.end {
        value["endTime"] = json!(moment(end));
    }
    value
}

#[cfg(test)]
mod tests {
    use model::Timestamp;
    use model::node_class::ReservationEntry;

    use super::*;

    #[test]
    fn a_status_is_written_as_karpenter_writes_it() {
        let status = NodeClassStatus {
            subnets: Some(vec![SubnetEntry {
                id: "subnet-1".into(),
                zone: "eu-west-1a".into(),
                zone_id: Some("euw1-az1".into()),
            }]),
            security_groups: Some(vec![SecurityGroupEntry { id: "sg-1".into(), name: "nodes".into() }]),
            images: Some(vec![ImageEntry {
                id: "ami-1".into(),
                name: "al2023".into(),
                deprecated: false,
                requirements: [
                    Requirement::new("karpenter.k8s.aws/instance-gpu-count", Operator::DoesNotExist, []),
                    Requirement::equals("kubernetes.io/arch", "amd64"),
                ]
                .into_iter()
                .collect(),
            }]),
            reservations: Some(vec![ReservationStatus {
                entry: ReservationEntry {
                    id: "cr-1".into(),
                    zone: "eu-west-1a".into(),
                    instance_type: "m5.large".into(),
                    expiring: false,
                    reservation_type: "default".into(),
                    interruptible: false,
                    count: Some(2),
                },
                instance_match_criteria: "targeted".into(),
                owner_id: "123456789012".into(),
                end: Some(Timestamp::from_millis(86_400_000)),
            }]),
            instance_profile: Some("profile".into()),
        };
        let expected = json!({
            "subnets": [{ "id": "subnet-1", "zone": "eu-west-1a", "zoneID": "euw1-az1" }],
            "securityGroups": [{ "id": "sg-1", "name": "nodes" }],
            "amis": [{
                "id": "ami-1",
                "name": "al2023",
                "requirements": [
                    { "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] },
                    { "key": "karpenter.k8s.aws/instance-gpu-count", "operator": "DoesNotExist" },
                ],
            }],
            "capacityReservations": [{
                "availabilityZone": "eu-west-1a",
                "endTime": "1970-01-02T00:00:00Z",
                "id": "cr-1",
                "instanceMatchCriteria": "targeted",
                "instanceType": "m5.large",
                "interruptible": false,
                "ownerID": "123456789012",
                "reservationType": "default",
                "state": "active",
            }],
            "instanceProfile": "profile",
        });
        assert_eq!(Value::Object(fields(&status)), expected);
        assert_eq!(fields(&NodeClassStatus::default()), Map::new(), "what was never resolved is left alone");
    }
}
