//! What the machines of the fleet cost now, summed by something.

use std::collections::BTreeMap;

use fleetwright_proto::v1;
use futures::future::join_all;
use model::ClusterName;
use tonic::Status;

use super::access::Access;
use super::api::FleetApi;
use api_messages::{enum_values, errors, resource_names as names};

impl FleetApi {
    /// Sums of all replicas; of this one alone if `part` is set.
    pub(super) async fn compute_cost_now(
        &self,
        request: v1::ComputeCostRequest,
        access: &Access,
    ) -> Result<v1::ComputeCostResponse, Status> {
        let only = match request.parent.as_str() {
            "" => None,
            parent => names::parse_parent(parent)?,
        };
        let group = v1::CostGroup::try_from(request.group_by)
            .map_err(|_| errors::invalid_argument("group_by", format!("group_by {} is not known", request.group_by)))?;
        let mut unreachable = self.unreachable(only.as_ref(), access).await?;
        let mut sums = self.own_sums(only.as_ref(), group, access);
        if access.part {
            return Ok(cost(sums, Vec::new()));
        }
        let asked = self.replicas.reachable(&access.clusters).into_iter().map(|(instance, mut client)| {
            let request = request.clone();
            async move { (instance, client.compute_cost(request).await) }
        });
        for (instance, answer) in join_all(asked).await {
            match answer {
                Ok(answer) => answer.into_inner().sums.into_iter().for_each(|sum| add(&mut sums, sum)),
                Err(_) => unreachable.extend(self.unanswered_of(&instance, only.as_ref(), access)),
            }
        }
        unreachable.sort_unstable();
        Ok(cost(sums, unreachable))
    }

    fn own_sums(&self, only: Option<&ClusterName>, group: v1::CostGroup, access: &Access) -> Sums {
        // As in lists: the view of a cluster whose lease was lost is published until the loss is noticed.
        let (view, own) = (self.views.borrow().clone(), self.directory.own());
        let is_asked = |name: &ClusterName| {
            own.contains(name) && access.clusters.allows(name) && only.is_none_or(|only| only == name)
        };
        let mut sums = Sums::new();
        for (cluster, published) in view.clusters.iter().filter(|(name, _)| is_asked(name)) {
            for node in published.rows.nodes.iter().filter(|node| !node.node_claim.is_empty()) {
                let key = match group {
                    v1::CostGroup::Unspecified => String::new(),
                    v1::CostGroup::Cluster => names::cluster(cluster),
                    v1::CostGroup::Pool => names::child(cluster, "pools", &node.pool),
                    v1::CostGroup::CapacityType => enum_values::capacity_type_label(node.capacity_type()),
                    v1::CostGroup::InstanceType => node.instance_type.clone(),
                    v1::CostGroup::Zone => node.zone.clone(),
                };
                add(
                    &mut sums,
                    v1::CostSum {
                        group: key,
                        price_micro_usd_per_hour: node.price_micro_usd_per_hour,
                        machine_count: 1,
                        breakdown: node.cost,
                    },
                );
            }
        }
        sums
    }
}

/// Sums by group.
type Sums = BTreeMap<String, v1::CostSum>;

fn add(sums: &mut Sums, of: v1::CostSum) {
    let sum = sums.entry(of.group).or_default();
    sum.price_micro_usd_per_hour += of.price_micro_usd_per_hour;
    sum.machine_count += of.machine_count;
    add_breakdown(sum.breakdown.get_or_insert_default(), &of.breakdown.unwrap_or_default());
}

fn add_breakdown(sum: &mut v1::CostBreakdown, of: &v1::CostBreakdown) {
    // Without `..`: a part that is not added would be missing from the whole.
    let v1::CostBreakdown {
        useful,
        booting,
        draining,
        hold,
        daemonsets,
        fragmentation,
        blocked,
        no_savings,
        unexplained,
    } = sum;
    *useful += of.useful;
    *booting += of.booting;
    *draining += of.draining;
    *hold += of.hold;
    *daemonsets += of.daemonsets;
    *fragmentation += of.fragmentation;
    *blocked += of.blocked;
    *no_savings += of.no_savings;
    *unexplained += of.unexplained;
}

fn cost(sums: Sums, unreachable: Vec<String>) -> v1::ComputeCostResponse {
    let mut cost = v1::ComputeCostResponse { unreachable, ..v1::ComputeCostResponse::default() };
    for (group, mut sum) in sums {
        cost.price_micro_usd_per_hour += sum.price_micro_usd_per_hour;
        cost.machine_count += sum.machine_count;
        add_breakdown(cost.breakdown.get_or_insert_default(), &sum.breakdown.unwrap_or_default());
        sum.group = group;
        cost.sums.push(sum);
    }
    cost.sums.sort_by(|one, other| {
        (other.price_micro_usd_per_hour, &one.group).cmp(&(one.price_micro_usd_per_hour, &other.group))
    });
    cost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_replicas_add_up_part_by_part() {
        let parts = |factor: i64| v1::CostBreakdown {
            useful: factor,
            booting: 2 * factor,
            draining: 3 * factor,
            hold: 4 * factor,
            daemonsets: 5 * factor,
            fragmentation: 6 * factor,
            blocked: 7 * factor,
            no_savings: 8 * factor,
            unexplained: 9 * factor,
        };
        let sum = |group: &str, factor: i64, machine_count| v1::CostSum {
            group: group.to_owned(),
            price_micro_usd_per_hour: 45 * factor,
            machine_count,
            breakdown: Some(parts(factor)),
        };
        let mut sums = Sums::new();
        [sum("spot", 10, 2), sum("on-demand", 100, 1), sum("spot", 1, 3)].into_iter().for_each(|of| add(&mut sums, of));
        let cost = cost(sums, Vec::new());
        assert_eq!(cost.sums, [sum("on-demand", 100, 1), sum("spot", 11, 5)]);
        assert_eq!((cost.price_micro_usd_per_hour, cost.machine_count), (45 * 111, 6));
        assert_eq!(cost.breakdown, Some(parts(111)));
    }
}
