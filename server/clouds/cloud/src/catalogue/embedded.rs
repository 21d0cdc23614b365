//! The EC2 data embedded in the program, and its decoder.
//!
//! `data/README.md` documents the source. One line of `ec2-catalogue.csv` is one instance type;
//! device fields are separated by `:`. [`regions`] reads the offerings by region.

mod regions;

use std::sync::LazyLock;

use model::{InstanceTypeName, Text};

use super::columns::Columns;
use super::exchange::CatalogueError;
use super::instance_type_info::{Accelerator, Gpu, Hypervisor, InstanceTypeInfo};
use super::labels;
use super::snapshot::{Hardware, Snapshot, TypeEntry};

const TYPES: &str = include_str!("../../data/ec2-catalogue.csv");
const REGIONS: &str = include_str!("../../data/ec2-regions.csv");
const COLUMNS: &str = "name,arch,cpu,mhz,hypervisor,vcpu,memoryMib,gpu,accelerator,efa,nvmeGb,cardEnis,enis,cards,ipv4,\
                       branchEnis,mbps,spot";

/// The embedded tables as text: instance types, and regions with zones and prices. `data/README.md` describes
/// them.
#[must_use]
pub fn embedded_tables() -> (&'static str, &'static str) {
    (TYPES, REGIONS)
}

static BUILTIN: LazyLock<Result<Snapshot, CatalogueError>> = LazyLock::new(decode);

impl Snapshot {
    /// The embedded EC2 catalogue, decoded once.
    ///
    /// # Errors
    /// When the embedded data is damaged; a test excludes this for every build.
    pub fn builtin() -> Result<&'static Self, &'static CatalogueError> {
        BUILTIN.as_ref()
    }
}

fn decode() -> Result<Snapshot, CatalogueError> {
    let mut columns = Columns::default();
    let mut types = decode_types(TYPES, &mut columns)?;
    let regions = regions::decode(REGIONS, &mut types)?;
    Ok(Snapshot::new(regions, columns, types))
}

fn decode_types(text: &'static str, columns: &mut Columns) -> Result<Vec<TypeEntry>, CatalogueError> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    let damaged = |line: usize| CatalogueError::Damaged { file: "ec2-catalogue.csv", line: line + 1 };
    let (at, heading) = lines.next().ok_or(damaged(0))?;
    if heading != COLUMNS {
        return Err(damaged(at));
    }
    lines.map(|(at, line)| read_type(line, columns).ok_or(damaged(at))).collect()
}

fn read_type(line: &'static str, columns: &mut Columns) -> Option<TypeEntry> {
    let mut fields = line.split(',');
    let name = InstanceTypeName::from(fields.next()?);
    let info = read_info(&mut fields)?;
    let spot = match fields.next()? {
        "y" => true,
        "n" => false,
        _ => return None,
    };
    let labels = labels::labels_of_type(&name, &info, columns);
    let machine = Hardware::Ec2(Box::new(info));
    Some(TypeEntry { name, labels, hardware: machine, spot, regional: Vec::new(), zone_offerings: Vec::new() })
}

fn read_info(fields: &mut impl Iterator<Item = &'static str>) -> Option<InstanceTypeInfo> {
    // Fields are read in the order of `COLUMNS`.
    Some(InstanceTypeInfo {
        arch: fields.next()?,
        cpu_manufacturer: Text::from(fields.next()?),
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
        ebs_mbps: None,
        encryption_in_transit: None,
        nitro_enclaves: None,
    })
}

/// An integer or empty; the outer `None` means invalid.
fn optional(field: &str) -> Option<Option<i64>> {
    if field.is_empty() { Some(None) } else { field.parse().ok().map(Some) }
}

/// `manufacturer:name:count:detail` or empty; the outer `None` means invalid.
fn device(field: &str) -> Option<Option<(Text, Text, i64, i64)>> {
    if field.is_empty() {
        return Some(None);
    }
    let mut parts = field.split(':');
    let (manufacturer, name) = (Text::from(parts.next()?), Text::from(parts.next()?));
    let (count, detail) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some(Some((manufacturer, name, count, detail)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_data_is_complete() {
        let snapshot = decode().unwrap();
        assert_eq!(snapshot.types.len(), 1386);
        // 34 commercial regions and both of GovCloud.
        assert_eq!(snapshot.regions().len(), 36);
        assert_eq!(snapshot.zones("us-east-1").len(), 6);
        assert!(snapshot.zones("us-gov-west-1").is_empty());
        assert_eq!(snapshot.region_of_zone(&"eu-west-1b".into()).map(AsRef::as_ref), Some("eu-west-1"));
        assert_eq!(snapshot.region_of_zone(&"ap-northeast-1d".into()).map(AsRef::as_ref), Some("ap-northeast-1"));
    }

    #[test]
    fn damage_is_reported_with_its_line() {
        let damaged = |text| decode_types(text, &mut Columns::default()).unwrap_err();
        assert_eq!(damaged("name\n"), CatalogueError::Damaged { file: "ec2-catalogue.csv", line: 1 });
        assert_eq!(damaged("# nothing"), CatalogueError::Damaged { file: "ec2-catalogue.csv", line: 1 });
    }
}
