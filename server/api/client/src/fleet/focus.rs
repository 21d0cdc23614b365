//! `fleetwright fleet focus`: what the machines have cost, in the columns of FOCUS 1.2 (FinOps Open Cost and Usage
//! Specification).
//!
//! The server knows prices and no invoices: `BilledCost`, which the specification allows to be no null, and `EffectiveCost` are the
//! same estimate, as `ChargeDescription` says in each row. Columns that begin with `x_` are ours, as the specification asks.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use fleetwright_proto::v1;

use super::cells::rfc3339;
use super::kinds::{Clusters, Selection};
use super::listing::list;
use super::spend::ago;
use crate::cluster_names;
use crate::remote::{FleetClient, ServerFlags, rpc_failure};
use api_messages::{enum_values, resource_names as names};
use command::exit::{Failure, Status};
use command::output;

/// Rows that are asked for at one time.
const PAGE_SIZE: i32 = 1_000;

/// Flags of `fleet focus`.
#[derive(Debug, Args)]
pub struct FocusFlags {
    #[command(flatten)]
    server: ServerFlags,
    /// Only this cluster
    #[arg(long, value_name = "NAME", add = cluster_names::completer())]
    cluster: Option<String>,
    /// The time until now, such as 6h or 30d; of more than a week ago only whole days (UTC) are known
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = command::duration::parse_duration_flag)]
    since: Duration,
}

pub(super) fn run(flags: &FocusFlags) -> Result<Status, Failure> {
    let start = ago(flags.since);
    flags.server.ask(async |mut client| {
        let clusters = match &flags.cluster {
            Some(name) => vec![names::cluster(name)],
            None => {
                let all = Selection {
                    parent: names::cluster("-"),
                    filter: String::new(),
                    order_by: String::new(),
                    min_interval: None,
                };
                let listed = list::<Clusters>(&mut client, &all, usize::MAX).await?;
                listed.rows.into_iter().map(|row| row.name).collect()
            }
        };
        let mut text = row_text(&COLUMNS.map(str::to_owned))?;
        for cluster in clusters {
            for interval in intervals(&mut client, &cluster, start).await? {
                text.push_str(&row_text(&row(&cluster, &interval))?);
            }
            let written = std::mem::take(&mut text);
            output::print(|out| out.write_all(written.as_bytes()))?;
        }
        output::print(|out| out.write_all(text.as_bytes()))?;
        Ok(Status::Done)
    })
}

async fn intervals(
    client: &mut FleetClient,
    cluster: &str,
    start: prost_types::Timestamp,
) -> Result<Vec<v1::CostInterval>, Failure> {
    let mut intervals = Vec::new();
    let mut request = v1::ListCostIntervalsRequest {
        parent: cluster.to_owned(),
        start_time: Some(start),
        page_size: PAGE_SIZE,
        ..Default::default()
    };
    loop {
        let page = client.list_cost_intervals(request.clone()).await.map_err(rpc_failure)?.into_inner();
        intervals.extend(page.cost_intervals);
        if page.next_page_token.is_empty() {
            return Ok(intervals);
        }
        request.page_token = page.next_page_token;
    }
}

/// Columns in the order of [`row`].
const COLUMNS: [&str; 36] = [
    "AvailabilityZone",
    "BilledCost",
    "BillingCurrency",
    "ChargeCategory",
    "ChargeDescription",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ConsumedQuantity",
    "ConsumedUnit",
    "EffectiveCost",
    "ListCost",
    "ListUnitPrice",
    "PricingCategory",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "RegionId",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceCategory",
    "ServiceName",
    "SubAccountName",
    "Tags",
    "x_CapacityType",
    "x_Cluster",
    "x_InstanceType",
    "x_Useful",
    "x_Booting",
    "x_Draining",
    "x_Hold",
    "x_DaemonSets",
    "x_Fragmentation",
    "x_Blocked",
    "x_NoSavings",
    "x_Unexplained",
];

fn row(cluster: &str, interval: &v1::CostInterval) -> [String; COLUMNS.len()] {
    let cluster = cluster.strip_prefix("clusters/").unwrap_or(cluster);
    let is_spot = interval.capacity_type() == v1::CapacityType::Spot;
    let time = |at: &Option<prost_types::Timestamp>| at.as_ref().map(rfc3339).unwrap_or_default();
    let ms = |at: &Option<prost_types::Timestamp>| at.as_ref().map_or(0, api_messages::to_millis);
    let hours = decimal(i128::from(ms(&interval.end_time) - ms(&interval.start_time)) * 1_000_000 / 3_600_000);
    let cost = decimal(interval.amount_micro_usd.into());
    // The list price is the on-demand price, which is not known of spot capacity.
    let unless_spot = |text: String| if is_spot { String::new() } else { text };
    let pricing = match interval.capacity_type() {
        v1::CapacityType::Spot => "Dynamic",
        v1::CapacityType::Reserved => "Committed",
        v1::CapacityType::OnDemand | v1::CapacityType::Unspecified => "Standard",
    };
    let tags = BTreeMap::from([("eks:eks-cluster-name", cluster), ("karpenter.sh/nodepool", &interval.pool)]);
    let tags = serde_json::to_string(&tags).unwrap_or_default();
    let parts = interval.breakdown.unwrap_or_default();
    let part = |amount: i64| decimal(amount.into());
    [
        interval.zone.clone(),
        cost.clone(),
        "USD".to_owned(),
        "Usage".to_owned(),
        "price over time: an estimate without volumes and discounts".to_owned(),
        time(&interval.end_time),
        time(&interval.start_time),
        hours.clone(),
        "Hours".to_owned(),
        cost.clone(),
        unless_spot(cost),
        unless_spot(decimal(interval.price_micro_usd_per_hour.into())),
        pricing.to_owned(),
        hours,
        "Hours".to_owned(),
        "AWS".to_owned(),
        region_of(&interval.zone).to_owned(),
        interval.provider_id.rsplit('/').next().unwrap_or_default().to_owned(),
        interval.node_claim.clone(),
        "Instance".to_owned(),
        "Compute".to_owned(),
        "Amazon Elastic Compute Cloud".to_owned(),
        cluster.to_owned(),
        tags,
        enum_values::capacity_type_label(interval.capacity_type()),
        cluster.to_owned(),
        interval.instance_type.clone(),
        part(parts.useful),
        part(parts.booting),
        part(parts.draining),
        part(parts.hold),
        part(parts.daemonsets),
        part(parts.fragmentation),
        part(parts.blocked),
        part(parts.no_savings),
        part(parts.unexplained),
    ]
}

/// Millionths as a decimal number.
fn decimal(millionths: i128) -> String {
    let sign = if millionths < 0 { "-" } else { "" };
    let amount = millionths.unsigned_abs();
    format!("{sign}{}.{:06}", amount / 1_000_000, amount % 1_000_000)
}

/// The region of a zone: `us-east-1` of `us-east-1a`, and of the local zone `us-east-1-bos-1a`. Empty if the zone has another form.
fn region_of(zone: &str) -> &str {
    let digit = zone.find(|one: char| one.is_ascii_digit());
    let end = digit.map(|first| first + zone[first..].chars().take_while(char::is_ascii_digit).count());
    end.map(|end| &zone[..end]).unwrap_or_default()
}

/// A line of CSV (RFC 4180). Texts come from clusters: a spreadsheet would calculate one that begins as a formula does.
fn row_text<const N: usize>(cells: &[String; N]) -> Result<String, Failure> {
    let is_number = |text: &str| text.parse::<f64>().is_ok();
    let cells = cells.iter().map(|text| match text.chars().next() {
        Some('=' | '+' | '-' | '@' | '\t' | '\r') if !is_number(text) => format!("'{text}"),
        _ => text.clone(),
    });
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(cells).map_err(Failure::internal)?;
    let bytes = writer.into_inner().map_err(Failure::internal)?;
    String::from_utf8(bytes).map_err(Failure::internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval() -> v1::CostInterval {
        v1::CostInterval {
            name: "clusters/prod/costIntervals/web-x7k2p.1767225600000".to_owned(),
            node_claim: "web-x7k2p".to_owned(),
            pool: "=1+1".to_owned(),
            provider_id: "aws:///us-east-1a/i-0abc".to_owned(),
            instance_type: "=HYPERLINK(\"http://evil\",\"m6i\")".to_owned(),
            zone: "us-east-1a".to_owned(),
            capacity_type: v1::CapacityType::OnDemand.into(),
            start_time: Some(api_messages::from_millis(1_767_225_600_000)),
            end_time: Some(api_messages::from_millis(1_767_227_400_000)),
            price_micro_usd_per_hour: 192_000,
            amount_micro_usd: 96_000,
            breakdown: Some(v1::CostBreakdown { useful: 48_000, blocked: 48_000, ..Default::default() }),
        }
    }

    fn cell(row: &[String; COLUMNS.len()], column: &str) -> String {
        row[COLUMNS.iter().position(|one| *one == column).unwrap()].clone()
    }

    #[test]
    fn half_an_hour_is_a_row_of_the_specification() {
        let row = row("clusters/prod", &interval());
        let expected = [
            ("ChargePeriodStart", "2026-01-01T00:00:00Z"),
            ("ChargePeriodEnd", "2026-01-01T00:30:00Z"),
            ("ConsumedQuantity", "0.500000"),
            ("EffectiveCost", "0.096000"),
            ("ListUnitPrice", "0.192000"),
            ("BilledCost", "0.096000"),
            ("RegionId", "us-east-1"),
            ("ResourceId", "i-0abc"),
            ("x_Useful", "0.048000"),
            ("Tags", r#"{"eks:eks-cluster-name":"prod","karpenter.sh/nodepool":"=1+1"}"#),
        ];
        for (column, value) in expected {
            assert_eq!(cell(&row, column), value, "{column}");
        }
        let spot = v1::CostInterval { capacity_type: v1::CapacityType::Spot.into(), ..interval() };
        let row = super::row("clusters/prod", &spot);
        assert_eq!((cell(&row, "ListCost"), cell(&row, "PricingCategory")), (String::new(), "Dynamic".to_owned()));
    }

    #[test]
    fn columns_are_in_the_order_of_the_alphabet_and_ours_are_last() {
        let (ours, theirs): (Vec<&str>, Vec<&str>) = COLUMNS.iter().partition(|column| column.starts_with("x_"));
        assert!(theirs.is_sorted());
        assert_eq!([theirs, ours].concat(), COLUMNS);
    }

    #[test]
    fn a_formula_is_a_text_and_quotes_are_doubled() {
        let line = row_text(&row("clusters/prod", &interval())).unwrap();
        assert!(line.contains(r#","'=HYPERLINK(""http://evil"",""m6i"")","#), "{line}");
        assert_eq!(row_text(&["-5".to_owned(), "-x".to_owned()]).unwrap(), "-5,'-x\n");
    }

    #[test]
    fn the_region_of_a_zone() {
        let zones =
            [("us-east-1a", "us-east-1"), ("us-east-1-bos-1a", "us-east-1"), ("ap-southeast-12b", "ap-southeast-12")];
        for (zone, region) in zones {
            assert_eq!(region_of(zone), region);
        }
        assert_eq!(region_of("z"), "");
    }
}
