//! The report of `smartctl --json`: what of it is the same for all kinds of drives.

use serde_json::Value;

/// Attributes of SATA drives, by their numbers. What others mean depends on who made the drive.
const REALLOCATED: u64 = 5;
const UNCORRECTABLE: u64 = 187;
const PENDING: u64 = 197;
/// Attributes whose value falls from 100 (new) to 0 (worn), by their names in smartmontools.
const LIFE_LEFT: [&str; 4] =
    ["Wear_Leveling_Count", "Media_Wearout_Indicator", "SSD_Life_Left", "Percent_Lifetime_Remain"];

/// What a drive says of itself; `None` where it says nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Its own verdict.
    pub passed: Option<bool>,
    pub celsius: Option<f64>,
    /// Of the writes that it is rated for, 1 is all; it may go on.
    pub used_ratio: Option<f64>,
    /// Of the spare blocks that it was made with.
    pub spare_ratio: Option<f64>,
    /// Errors that it could not correct.
    pub media_errors: Option<u64>,
    pub reallocated: Option<u64>,
    /// Sectors that it will reallocate when they are written.
    pub pending: Option<u64>,
    /// When it was asked, seconds since 1970.
    pub at_secs: u64,
}

impl Report {
    /// `None` if there is nothing in it.
    pub fn read(text: &[u8]) -> Option<Report> {
        let all: Value = serde_json::from_slice(text).ok()?;
        let nvme = all.get("nvme_smart_health_information_log").unwrap_or(&Value::Null);
        let percent = |value: Option<&Value>| Some(value?.as_f64()? / 100.0);
        let used = percent(all.pointer("/endurance_used/current_percent"))
            .or_else(|| percent(nvme.get("percentage_used")))
            .or_else(|| Some(1.0 - life_left(&all)? / 100.0));
        let spare = percent(all.pointer("/spare_available/current_percent"))
            .or_else(|| percent(nvme.get("available_spare")));
        let number = |value: Option<&Value>| value.and_then(Value::as_u64);
        let report = Report {
            passed: all.pointer("/smart_status/passed").and_then(Value::as_bool),
            celsius: all.pointer("/temperature/current").and_then(Value::as_f64),
            used_ratio: used,
            spare_ratio: spare,
            media_errors: number(nvme.get("media_errors"))
                .or_else(|| attribute(&all, UNCORRECTABLE)),
            reallocated: attribute(&all, REALLOCATED)
                .or_else(|| number(all.get("scsi_grown_defect_list"))),
            pending: attribute(&all, PENDING),
            at_secs: 0,
        };
        (report != Report::default()).then_some(report)
    }
}

fn attributes(all: &Value) -> impl Iterator<Item = &Value> {
    all.pointer("/ata_smart_attributes/table").and_then(Value::as_array).into_iter().flatten()
}

/// The raw value, a count in all that are asked for here.
fn attribute(all: &Value, id: u64) -> Option<u64> {
    let found = attributes(all).find(|one| one["id"].as_u64() == Some(id))?;
    found.pointer("/raw/value")?.as_u64()
}

fn life_left(all: &Value) -> Option<f64> {
    let known = |one: &&Value| one["name"].as_str().is_some_and(|name| LIFE_LEFT.contains(&name));
    attributes(all).find(known)?["value"].as_f64().map(|value| value.clamp(0.0, 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_nvme_drive_says_how_it_is() {
        let report = Report::read(include_bytes!("nvme.json")).expect("a report");
        let expected = Report {
            passed: Some(true),
            celsius: Some(38.0),
            used_ratio: Some(0.03),
            spare_ratio: Some(1.0),
            media_errors: Some(2),
            reallocated: None,
            pending: None,
            at_secs: 0,
        };
        assert_eq!(report, expected);
    }

    #[test]
    fn a_sata_drive_says_how_it_is() {
        let report = Report::read(include_bytes!("sata.json")).expect("a report");
        let expected = Report {
            passed: Some(false),
            celsius: Some(41.0),
            used_ratio: Some(1.0 - 0.81),
            spare_ratio: None,
            media_errors: Some(3),
            reallocated: Some(17),
            pending: Some(1),
            at_secs: 0,
        };
        assert_eq!(report, expected);
    }

    #[test]
    fn whatever_else_is_said_is_no_report() {
        // What smartctl says of a device that it can't open, or that has no SMART.
        let refused = br#"{"smartctl":{"version":[7,4],"messages":[{"string":"Smartctl open device:
            /dev/sda failed: Permission denied","severity":"error"}],"exit_status":2}}"#;
        let strange = br#"{"temperature":{"current":"hot"},"smart_status":{"passed":1},
            "ata_smart_attributes":{"table":[7,{"id":5},{"id":"5","raw":{"value":-1}}]},
            "nvme_smart_health_information_log":[1]}"#;
        for text in [&b""[..], b"{", b"[]", b"null", b"no json", refused, strange] {
            assert_eq!(Report::read(text), None, "{}", String::from_utf8_lossy(text));
        }
    }
}
