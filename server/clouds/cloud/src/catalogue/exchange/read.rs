//! Reads a catalogue file. Unknown fields, duplicates and values out of range are rejected.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use model::labels::{
    CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODECLASS, NODEPOOL, REGION, RESERVATION_ID, WINDOWS_BUILD, ZONE, ZONE_ID,
    canonical_key,
};
use model::resources::{CPU, MEMORY};
use model::{CapacityType, InstanceTypeName, MicroUsd, Resources, Text, Zone, quantity};
use serde_json::{Map, Value};

use super::super::columns::{Columns, Row};
use super::super::price::{MAX_USD_PER_HOUR, parse_usd};
use super::super::snapshot::{Hardware, Quote, Region, Snapshot, TypeEntry, ZoneOffering};
use super::{API_VERSION, CatalogueError, KIND};

type Read<T> = Result<T, CatalogueError>;

/// Labels of offering, region, NodePool or NodeClass, which a type must not set.
const FOREIGN_LABELS: [&str; 9] =
    [ZONE, ZONE_ID, REGION, CAPACITY_TYPE, RESERVATION_ID, HOSTNAME, NODEPOOL, NODECLASS, WINDOWS_BUILD];

impl Snapshot {
    /// Reads a catalogue file (`kind: Catalogue`), exported or written by hand; see
    /// [`exchange`](super) for the format.
    ///
    /// # Errors
    /// [`CatalogueError`] names the type, the field, what was found and what is allowed.
    pub fn parse(bytes: &[u8]) -> Result<Self, CatalogueError> {
        let file: Value = serde_json::from_slice(bytes).map_err(|error| CatalogueError::NotJson(error.to_string()))?;
        let root = FieldPath(None, Step::Root);
        let file = object(&file, &root, &["apiVersion", "kind", "regions", "types"])?;
        for (key, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
            let at = root.key(key);
            let found = text(required(file, key, &at)?, &at)?;
            if found != expected {
                return Err(at.refuse(format!("{found:?}"), format!("{expected:?}")));
            }
        }
        let at = root.key("regions");
        let regions = read_regions(array(required(file, "regions", &at)?, &at)?, &at)?;
        let at = root.key("types");
        let mut columns = Columns::default();
        let types = read_types(array(required(file, "types", &at)?, &at)?, &at, &regions, &mut columns)?;
        Ok(Self::new(regions, columns, types))
    }
}

fn read_regions(list: &[Value], at: &FieldPath<'_>) -> Read<Vec<Region>> {
    if list.is_empty() {
        return Err(at.refuse(
            "no region".into(),
            "at least one, such as {\"name\":\"us-east-1\",\"zones\":[\"us-east-1a\"]}".into(),
        ));
    }
    let mut regions: Vec<Region> = Vec::with_capacity(list.len());
    // Zone names are unique over all regions, because offerings name a zone without its region.
    let mut taken = BTreeSet::new();
    for (index, value) in list.iter().enumerate() {
        let at = at.index(index);
        let fields = object(value, &at, &["name", "zones", "spotRatio", "priceDate"])?;
        let name = name_of(required(fields, "name", &at.key("name"))?, &at.key("name"))?;
        if regions.iter().any(|region| region.name == name) {
            return Err(at.key("name").refuse(format!("{name:?} a second time"), "a name once".into()));
        }
        let ratio = fields.get("spotRatio").map(|value| read_ratio(value, &at.key("spotRatio")));
        let date = fields.get("priceDate").map(|value| text(value, &at.key("priceDate")).map(Text::from));
        let (spot_per_mille, price_date) = (ratio.transpose()?, date.transpose()?);
        let at = at.key("zones");
        let mut zones = Vec::new();
        for (index, zone) in array(required(fields, "zones", &at)?, &at)?.iter().enumerate() {
            let at = at.index(index);
            let zone = Zone::from(name_of(zone, &at)?);
            if !taken.insert(zone.clone()) {
                return Err(at.refuse(format!("{zone:?} a second time"), "a zone once, in one region".into()));
            }
            zones.push(zone);
        }
        zones.sort();
        regions.push(Region { name, zones, zone_ids: BTreeMap::new(), spot_per_mille, price_date });
    }
    Ok(regions)
}

/// A share of the on-demand price, in thousandths.
fn read_ratio(value: &Value, at: &FieldPath<'_>) -> Read<i64> {
    let ratio = value.as_f64().filter(|ratio| value.is_number() && (0.001..=1.0).contains(ratio));
    let refused = || {
        let found = if value.is_number() { value.to_string() } else { kind(value) };
        at.refuse(found, "a share of the on-demand price, from 0.001 to 1".into())
    };
    ratio.map(|ratio| (ratio * 1000.0).round() as i64).ok_or_else(refused)
}

fn read_types(list: &[Value], at: &FieldPath<'_>, regions: &[Region], columns: &mut Columns) -> Read<Vec<TypeEntry>> {
    let mut names = BTreeSet::new();
    let mut types = Vec::with_capacity(list.len());
    for (index, value) in list.iter().enumerate() {
        let name = value.get("name").and_then(Value::as_str);
        let at = FieldPath(Some(at), Step::Named(index, name));
        let entry = read_type(value, &at, regions, columns)?;
        if !names.insert(entry.name.clone()) {
            return Err(at.key("name").refuse(format!("{:?} a second time", entry.name), "a name once".into()));
        }
        types.push(entry);
    }
    Ok(types)
}

fn read_type(value: &Value, at: &FieldPath<'_>, regions: &[Region], columns: &mut Columns) -> Read<TypeEntry> {
    const FIELDS: [&str; 6] = ["name", "labels", "capacity", "overhead", "onDemandUsdPerHour", "offerings"];
    let fields = object(value, at, &FIELDS)?;
    let name = InstanceTypeName::from(name_of(required(fields, "name", &at.key("name"))?, &at.key("name"))?);
    let labels = match fields.get("labels") {
        Some(labels) => read_labels(labels, &at.key("labels"), &name, columns)?,
        None => Row::default(),
    };
    let capacity = read_capacity(required(fields, "capacity", &at.key("capacity"))?, &at.key("capacity"))?;
    let overhead =
        fields.get("overhead").map(|value| read_overhead(value, &at.key("overhead"), &capacity)).transpose()?;
    let zone_offerings =
        fields.get("offerings").map_or(Ok(Vec::new()), |value| read_offerings(value, &at.key("offerings"), regions))?;
    let prices = fields.get("onDemandUsdPerHour");
    let stated = prices.map_or(Ok(Vec::new()), |value| read_prices(value, &at.key("onDemandUsdPerHour"), regions))?;
    let regional = regional_prices(stated, &zone_offerings);
    let spot = zone_offerings.iter().any(|offering| offering.capacity_type == CapacityType::Spot);
    Ok(TypeEntry { name, labels, hardware: Hardware::Explicit { capacity, overhead }, spot, regional, zone_offerings })
}

/// Adds the minimum price of a region's on-demand offerings to the stated prices.
fn regional_prices(stated: Vec<(usize, MicroUsd)>, zone_offerings: &[ZoneOffering]) -> Vec<(usize, Quote)> {
    let exact = |(region, price)| (region, Quote { price, estimated: false });
    let mut regional: Vec<(usize, Quote)> = stated.into_iter().map(exact).collect();
    for offering in zone_offerings.iter().filter(|offering| offering.capacity_type == CapacityType::OnDemand) {
        let Some(quote @ Quote { estimated: false, .. }) = offering.price else { continue };
        match regional.iter_mut().find(|(region, _)| *region == offering.region) {
            Some((_, least)) => least.price = quote.price.min(least.price),
            None => regional.push((offering.region, quote)),
        }
    }
    regional
}

fn read_labels(value: &Value, at: &FieldPath<'_>, name: &InstanceTypeName, columns: &mut Columns) -> Read<Row> {
    let mut labels = Row::default();
    for (key, value) in map(value, at)? {
        let at = at.key(key);
        if key.is_empty() || FOREIGN_LABELS.contains(&canonical_key(key)) {
            let allowed =
                "labels of the type itself; zone, region, capacity type and the like come with offering and NodePool";
            return Err(at.refuse(format!("the label {key:?}"), allowed.into()));
        }
        let label = text(value, &at)?;
        if !is_label_value(label) {
            return Err(at.refuse(format!("{label:?}"), LABEL_VALUE.into()));
        }
        if canonical_key(key) == INSTANCE_TYPE && *name != label {
            return Err(at.refuse(format!("{label:?}"), format!("the type's name, {name:?}")));
        }
        if !columns.set(&mut labels, canonical_key(key), label) {
            return Err(at.refuse(format!("a second value for {}", canonical_key(key)), "one".into()));
        }
    }
    Ok(labels)
}

fn read_capacity(value: &Value, at: &FieldPath<'_>) -> Read<Resources> {
    let capacity = read_amounts(value, at)?;
    for needed in [CPU, MEMORY] {
        if capacity.get(needed) == 0 {
            let found = if capacity.contains(needed) { "0" } else { "nothing" };
            return Err(at.key(needed).refuse(found.into(), "an amount above zero, such as 4 or 16Gi".into()));
        }
    }
    Ok(capacity)
}

fn read_overhead(value: &Value, at: &FieldPath<'_>, capacity: &Resources) -> Read<Resources> {
    let overhead = read_amounts(value, at)?;
    for (name, amount) in overhead.iter() {
        if capacity.contains(name) && amount > capacity.get(name) {
            let most = format!("at most the capacity, {}", quantity::render(name, capacity.get(name)));
            return Err(at.key(name).refuse(quantity::render(name, amount), most));
        }
    }
    Ok(overhead)
}

fn read_amounts(value: &Value, at: &FieldPath<'_>) -> Read<Resources> {
    let mut amounts = Resources::new();
    for (name, value) in map(value, at)? {
        let at = at.key(name);
        let written = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            other => return Err(at.refuse(kind(other), "a quantity, such as \"500m\", 4 or \"16Gi\"".into())),
        };
        let amount = quantity::parse(name, &written)
            .map_err(|error| at.refuse(format!("{written:?}"), format!("a quantity ({error})")))?;
        if amount < 0 || name.is_empty() {
            return Err(at.refuse(format!("{written:?}"), "a named amount of at least 0".into()));
        }
        amounts.set(name.as_str(), amount);
    }
    Ok(amounts)
}

fn read_prices(value: &Value, at: &FieldPath<'_>, regions: &[Region]) -> Read<Vec<(usize, MicroUsd)>> {
    let mut prices = Vec::new();
    for (name, value) in map(value, at)? {
        let at = at.key(name);
        let Some(region) = regions.iter().position(|region| region.name.as_ref() == name) else {
            return Err(at.refuse(format!("the region {name:?}"), list(regions.iter().map(|region| &region.name))));
        };
        prices.push((region, read_price(value, &at)?));
    }
    Ok(prices)
}

fn read_offerings(value: &Value, at: &FieldPath<'_>, regions: &[Region]) -> Read<Vec<ZoneOffering>> {
    let mut zone_offerings: Vec<ZoneOffering> = Vec::new();
    for (index, value) in array(value, at)?.iter().enumerate() {
        let at = at.index(index);
        let offering = read_offering(value, &at, regions)?;
        let same = |other: &&ZoneOffering| {
            (other.region, other.zone, other.capacity_type) == (offering.region, offering.zone, offering.capacity_type)
        };
        if zone_offerings.iter().find(same).is_some() {
            let found = "the same zone and capacity type a second time";
            return Err(at.refuse(found.into(), "each once".into()));
        }
        zone_offerings.push(offering);
    }
    Ok(zone_offerings)
}

fn read_offering(value: &Value, at: &FieldPath<'_>, regions: &[Region]) -> Read<ZoneOffering> {
    let fields = object(value, at, &["zone", "capacityType", "priceUsdPerHour", "estimated"])?;
    let (region, zone) = {
        let at = at.key("zone");
        let name = text(required(fields, "zone", &at)?, &at)?;
        let zones = || regions.iter().flat_map(|region| region.zones.iter().map(Zone::as_text));
        find_zone(regions, name).ok_or_else(|| at.refuse(format!("{name:?}"), list(zones())))?
    };
    let capacity_type = {
        let at = at.key("capacityType");
        match text(required(fields, "capacityType", &at)?, &at)? {
            "on-demand" => CapacityType::OnDemand,
            "spot" => CapacityType::Spot,
            other => {
                let allowed = "\"on-demand\", \"spot\" (reserved capacity comes from the NodeClass)";
                return Err(at.refuse(format!("{other:?}"), allowed.into()));
            }
        }
    };
    let price = fields.get("priceUsdPerHour").map(|value| read_price(value, &at.key("priceUsdPerHour"))).transpose()?;
    let estimated = match fields.get("estimated") {
        None => false,
        Some(Value::Bool(estimated)) if price.is_some() || !estimated => *estimated,
        Some(Value::Bool(_)) => {
            return Err(at.key("estimated").refuse("true without a price".into(), "a price beside it".into()));
        }
        Some(other) => return Err(at.key("estimated").refuse(kind(other), "true or false".into())),
    };
    Ok(ZoneOffering { region, zone, capacity_type, price: price.map(|price| Quote { price, estimated }) })
}

fn find_zone(regions: &[Region], name: &str) -> Option<(usize, usize)> {
    let zone_in = |region: &Region| region.zones.binary_search_by(|zone| str::cmp(zone, name)).ok();
    regions.iter().enumerate().find_map(|(index, region)| zone_in(region).map(|zone| (index, zone)))
}

/// JSON numbers are doubles; their shortest decimal form equals the text in the file.
fn read_price(value: &Value, at: &FieldPath<'_>) -> Read<MicroUsd> {
    let number = value.as_f64().filter(|_| value.is_number());
    let price = number.and_then(|number| parse_usd(&format!("{number}")));
    price.ok_or_else(|| {
        let found = if value.is_number() { value.to_string() } else { kind(value) };
        at.refuse(found, format!("a number of dollars per hour, from 0 to {MAX_USD_PER_HOUR}"))
    })
}

const LABEL_VALUE: &str = "at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends";

fn is_label_value(text: &str) -> bool {
    let inner = |b: &u8| b.is_ascii_alphanumeric() || b"-_.".contains(b);
    let ends = |b: Option<&u8>| b.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63 && bytes.iter().all(inner) && ends(bytes.first()) && ends(bytes.last())
}

fn name_of(value: &Value, at: &FieldPath<'_>) -> Read<Text> {
    let name = text(value, at)?;
    if name.is_empty() || !is_label_value(name) {
        return Err(at.refuse(format!("{name:?}"), format!("a name: {LABEL_VALUE}")));
    }
    Ok(name.into())
}

fn required<'v>(fields: &'v Map<String, Value>, key: &str, at: &FieldPath<'_>) -> Read<&'v Value> {
    fields.get(key).ok_or_else(|| at.refuse("nothing".into(), "this field must be there".into()))
}

fn object<'v>(value: &'v Value, at: &FieldPath<'_>, allowed: &[&str]) -> Read<&'v Map<String, Value>> {
    let fields = map(value, at)?;
    match fields.keys().find(|key| !allowed.contains(&key.as_str())) {
        Some(unknown) => Err(at.refuse(format!("the field {unknown:?}"), allowed.join(", "))),
        None => Ok(fields),
    }
}

fn map<'v>(value: &'v Value, at: &FieldPath<'_>) -> Read<&'v Map<String, Value>> {
    value.as_object().ok_or_else(|| at.refuse(kind(value), "an object".into()))
}

fn array<'v>(value: &'v Value, at: &FieldPath<'_>) -> Read<&'v Vec<Value>> {
    value.as_array().ok_or_else(|| at.refuse(kind(value), "a list".into()))
}

fn text<'v>(value: &'v Value, at: &FieldPath<'_>) -> Read<&'v str> {
    value.as_str().ok_or_else(|| at.refuse(kind(value), "a text".into()))
}

fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the text {text:?}"),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
    }
}

fn list<'t>(names: impl Iterator<Item = &'t Text>) -> String {
    names.map(AsRef::as_ref).collect::<Vec<&str>>().join(", ")
}

/// Path in the file: a step and its parent.
struct FieldPath<'p>(Option<&'p FieldPath<'p>>, Step<'p>);

enum Step<'p> {
    Root,
    Key(&'p str),
    Index(usize),
    /// An instance type, by position and name.
    Named(usize, Option<&'p str>),
}

impl<'p> FieldPath<'p> {
    fn key(&'p self, key: &'p str) -> FieldPath<'p> {
        FieldPath(Some(self), Step::Key(key))
    }

    fn index(&'p self, index: usize) -> FieldPath<'p> {
        FieldPath(Some(self), Step::Index(index))
    }

    fn refuse(&self, found: String, allowed: String) -> CatalogueError {
        CatalogueError::Field { at: self.to_string(), found, allowed }
    }
}

impl fmt::Display for FieldPath<'_> {
    /// `types[3] (m5.large).capacity.cpu`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let top = matches!(self.0, Some(FieldPath(_, Step::Root)));
        if let Some(above) = self.0.filter(|_| !top) {
            write!(f, "{above}")?;
        }
        match self.1 {
            Step::Root => f.write_str("the file"),
            Step::Key(key) if top => f.write_str(key),
            Step::Key(key) => write!(f, ".{key}"),
            Step::Index(index) | Step::Named(index, None) => write!(f, "[{index}]"),
            Step::Named(index, Some(name)) => write!(f, "[{index}] ({name})"),
        }
    }
}
