//! The EC2 figures that are part of the program, and how they are read.
//!
//! `data/README.md` says where they come from. One line is one instance type; lists inside a field are cut by `|` (one entry
//! for each region) and `:` (the parts of a device).

use std::sync::LazyLock;

use engine::model::{CapacityType, Text};

use super::columns::Columns;
use super::exchange::CatalogueError;
use super::figures::{Accelerator, Figures, Gpu, Hypervisor};
use super::labels;
use super::price::parse_usd;
use super::snapshot::{Machine, Region, Sale, Snapshot, TypeEntry};

const DATA: &str = include_str!("../../data/ec2-catalogue.csv");
const COLUMNS: &str = "name,arch,cpu,mhz,hypervisor,vcpu,memoryMib,gpu,accelerator,efa,nvmeGb,cardEnis,enis,cards,ipv4,\
                       branchEnis,mbps,spot,usd,zones";

static BUILTIN: LazyLock<Result<Snapshot, CatalogueError>> = LazyLock::new(decode);

impl Snapshot {
    /// The EC2 catalogue that is part of the program, decoded once.
    ///
    /// # Errors
    /// When the data that was compiled in is damaged, which a test rules out for every build.
    pub fn builtin() -> Result<&'static Self, &'static CatalogueError> {
        BUILTIN.as_ref()
    }
}

fn decode() -> Result<Snapshot, CatalogueError> {
    decode_text(DATA)
}

fn decode_text(text: &'static str) -> Result<Snapshot, CatalogueError> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    let damaged = |line: usize| CatalogueError::Damaged { line: line + 1 };
    let (at, regions) = lines.next().ok_or(damaged(0))?;
    let regions = read_regions(regions).ok_or(damaged(at))?;
    let (at, columns) = lines.next().ok_or(damaged(at))?;
    if columns != COLUMNS {
        return Err(damaged(at));
    }
    let mut columns = Columns::default();
    let types: Result<Vec<TypeEntry>, CatalogueError> =
        lines.map(|(at, line)| read_type(line, &regions, &mut columns).ok_or(damaged(at))).collect();
    Ok(Snapshot::new(regions, columns, types?))
}

fn read_regions(line: &str) -> Option<Vec<Region>> {
    let region = |field: &str| {
        let (name, letters) = field.split_once(':')?;
        let zones = letters.chars().map(|letter| Text::from(format!("{name}{letter}"))).collect();
        Some(Region { name: Text::from(name), zones })
    };
    line.strip_prefix("regions ")?.split(' ').map(region).collect()
}

fn read_type(line: &'static str, regions: &[Region], columns: &mut Columns) -> Option<TypeEntry> {
    let mut fields = line.split(',');
    let name = Text::from(fields.next()?);
    let figures = read_figures(&mut fields)?;
    let spot = match fields.next()? {
        "y" => true,
        "n" => false,
        _ => return None,
    };
    let prices = fields.next()?.split('|').enumerate().filter(|(_, price)| !price.is_empty());
    let regional = prices.map(|(region, price)| Some((region, parse_usd(price)?))).collect::<Option<Vec<_>>>()?;
    let sales = read_sales(fields.next()?, regions, spot)?;
    let labels = labels::of_figures(&name, &figures, columns);
    Some(TypeEntry { name, labels, machine: Machine::Ec2(Box::new(figures)), spot, regional, sales })
}

fn read_figures(fields: &mut impl Iterator<Item = &'static str>) -> Option<Figures> {
    Some(Figures {
        arch: fields.next()?,
        cpu_manufacturer: fields.next()?,
        mhz: optional(fields.next()?)?,
        hypervisor: match fields.next()? {
            "nitro" => Hypervisor::Nitro,
            "xen" => Hypervisor::Xen,
            "metal" => Hypervisor::Metal,
            _ => return None,
        },
        vcpu: fields.next()?.parse().ok()?,
        memory_mib: fields.next()?.parse().ok()?,
        gpu: device(fields.next()?)?.map(|(manufacturer, name, count, memory_mib)| Gpu {
            manufacturer,
            name,
            count,
            memory_mib,
        }),
        accelerator: device(fields.next()?)?.map(|(manufacturer, name, count, cores)| Accelerator {
            manufacturer,
            name,
            count,
            cores,
        }),
        efa: fields.next()?.parse().ok()?,
        nvme_gb: optional(fields.next()?)?,
        card_enis: fields.next()?.parse().ok()?,
        enis: fields.next()?.parse().ok()?,
        cards: fields.next()?.parse().ok()?,
        ipv4_per_eni: fields.next()?.parse().ok()?,
        branch_enis: fields.next()?.parse().ok()?,
        mbps: optional(fields.next()?)?,
    })
}

/// An integer or nothing; the outer `None` means that it can be neither.
fn optional(field: &str) -> Option<Option<i64>> {
    if field.is_empty() { Some(None) } else { field.parse().ok().map(Some) }
}

/// `manufacturer:name:count:detail` or nothing; the outer `None` means that it can be neither.
fn device(field: &'static str) -> Option<Option<(&'static str, &'static str, i64, i64)>> {
    if field.is_empty() {
        return Some(None);
    }
    let mut parts = field.split(':');
    let (manufacturer, name) = (parts.next()?, parts.next()?);
    let (count, detail) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some(Some((manufacturer, name, count, detail)))
}

fn read_sales(field: &str, regions: &[Region], spot: bool) -> Option<Vec<Sale>> {
    let mut sales = Vec::new();
    for (region, letters) in field.split('|').enumerate() {
        for letter in letters.chars() {
            let zone = regions.get(region)?.zones.iter().position(|zone| zone.ends_with(letter))?;
            sales.push(Sale { region, zone, capacity_type: CapacityType::OnDemand, price: None });
            if spot {
                sales.push(Sale { region, zone, capacity_type: CapacityType::Spot, price: None });
            }
        }
    }
    Some(sales)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_in_the_program_are_whole() {
        let snapshot = decode().unwrap();
        assert_eq!(snapshot.types.len(), 1386);
        assert_eq!(snapshot.zones("us-east-1").len(), 6);
        assert!(snapshot.zones("us-gov-west-1").is_empty());
        assert_eq!(snapshot.region_of_zone("eu-west-1b").map(AsRef::as_ref), Some("eu-west-1"));
    }

    #[test]
    fn damage_is_reported_with_its_line() {
        assert_eq!(decode_text("regions a:x\nname\n"), Err(CatalogueError::Damaged { line: 2 }));
        assert_eq!(decode_text("# nothing"), Err(CatalogueError::Damaged { line: 1 }));
    }
}
