//! The choice of a device among those of a machine.

use super::info::{DeviceInfo, PciAddress};
use std::cmp::Reverse;
use std::fmt;
use uuid::Uuid;

/// NVIDIA's number among the vendors of PCI.
const NVIDIA: u32 = 0x10de;

/// Choice of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The first one of the best kind: with memory of its own, if there is one. Of NVIDIA's devices only
    /// those that `CUDA_VISIBLE_DEVICES` lists, in its order, where that is set.
    #[default]
    Best,
    /// The device with this number.
    Number(usize),
    /// The device with this UUID.
    Uuid(Uuid),
    /// The device at this address.
    Pci(PciAddress),
    /// The first one with this text in its name, in any case of letters.
    Name(String),
}

impl std::str::FromStr for Choice {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if let Ok(number) = text.parse() {
            Choice::Number(number)
        } else if let Ok(uuid) = Uuid::try_parse(text.strip_prefix("GPU-").unwrap_or(text)) {
            Choice::Uuid(uuid)
        } else if let Some(address) = PciAddress::parse(text) {
            Choice::Pci(address)
        } else {
            Choice::Name(text.into())
        })
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Best => f.write_str("that can be used"),
            Choice::Number(number) => write!(f, "{number}"),
            Choice::Uuid(uuid) => write!(f, "{uuid}"),
            Choice::Pci(address) => write!(f, "{address}"),
            Choice::Name(name) => f.write_str(name),
        }
    }
}

impl Choice {
    /// Returns the index of the device in `all`. `visible`: the value of `CUDA_VISIBLE_DEVICES`.
    pub(super) fn of(&self, all: &[DeviceInfo], visible: Option<&str>) -> Option<usize> {
        let first = |is: &dyn Fn(&DeviceInfo) -> bool| all.iter().position(is);
        match self {
            Choice::Best => best(all, visible),
            Choice::Number(number) => (*number < all.len()).then_some(*number),
            Choice::Uuid(uuid) => first(&|info| info.uuid == *uuid),
            Choice::Pci(address) => first(&|info| info.pci == Some(*address)),
            Choice::Name(name) => first(&|info| info.name.to_lowercase().contains(&name.to_lowercase())),
        }
    }
}

fn best(all: &[DeviceInfo], visible: Option<&str>) -> Option<usize> {
    let visible = visible.map(|list| listed(all, list));
    let rank = |index: usize| match &visible {
        Some(listed) if all[index].vendor == NVIDIA => listed.iter().position(|other| *other == index),
        _ => Some(index),
    };
    let usable = (0..all.len()).filter(|index| all[*index].lacks.is_empty());
    let ranked = usable.filter_map(|index| Some((all[index].kind, rank(index)?, index)));
    ranked.min().map(|(_, _, index)| index)
}

/// Returns the devices that a value of `CUDA_VISIBLE_DEVICES` lists: by number, in the order of their
/// addresses (as CUDA has it with `CUDA_DEVICE_ORDER=PCI_BUS_ID`), or by the first characters of a UUID. As
/// in CUDA, the list ends at the first entry that names no device or one again.
fn listed(all: &[DeviceInfo], list: &str) -> Vec<usize> {
    let mut devices: Vec<usize> = (0..all.len()).filter(|index| all[*index].vendor == NVIDIA).collect();
    devices.sort_by_key(|index| (Reverse(all[*index].pci.is_some()), all[*index].pci));
    let mut found = Vec::new();
    for entry in list.split(',').map(str::trim) {
        let device = match entry.strip_prefix("GPU-") {
            Some(start) if !start.is_empty() => {
                let is = |index: &&usize| all[**index].uuid.to_string().starts_with(&start.to_lowercase());
                devices.iter().find(is)
            }
            Some(_) => None,
            None => entry.parse().ok().and_then(|number: usize| devices.get(number)),
        };
        match device {
            Some(index) if !found.contains(index) => found.push(*index),
            _ => break,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::info::DeviceKind;
    use super::*;

    fn device(number: usize, kind: DeviceKind, vendor: u32, bus: u8) -> DeviceInfo {
        DeviceInfo {
            number,
            name: format!("Device {number}"),
            kind,
            vendor,
            uuid: Uuid::from_bytes([number as u8 + 1; 16]),
            pci: Some(PciAddress { domain: 0, bus, device: 0, function: 0 }),
            driver: String::new(),
            driver_build: (0, Uuid::nil()),
            version: (1, 2, 0),
            memory: 0,
            free_memory: None,
            subgroup: 32,
            workgroup: 256,
            tick: 1.0,
            lacks: Vec::new(),
        }
    }

    #[test]
    fn a_choice_is_a_number_a_uuid_an_address_or_a_name() {
        let uuid = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        let address = PciAddress { domain: 0, bus: 0x65, device: 0, function: 0 };
        for (text, choice) in [
            ("1", Choice::Number(1)),
            ("GPU-01234567-89ab-cdef-0123-456789abcdef", Choice::Uuid(uuid)),
            ("01234567-89AB-cdef-0123-456789abcdef", Choice::Uuid(uuid)),
            ("0000:65:00.0", Choice::Pci(address)),
            ("65:00.0", Choice::Pci(address)),
            ("65:00.0 ", Choice::Name("65:00.0 ".into())),
            ("1:65:00:00.0", Choice::Name("1:65:00:00.0".into())),
            ("+5:00.0", Choice::Name("+5:00.0".into())),
            (
                "01234567-89ab-cdef-0123-456789abcde",
                Choice::Name("01234567-89ab-cdef-0123-456789abcde".into()),
            ),
            ("H100", Choice::Name("H100".into())),
        ] {
            assert_eq!(text.parse(), Ok(choice), "{text}");
        }
        assert_eq!(address.to_string(), "0000:65:00.0");
    }

    #[test]
    fn devices_are_found_by_each_kind_of_choice() {
        let all = [device(0, DeviceKind::Software, 1, 9), device(1, DeviceKind::Discrete, 2, 7)];
        for (text, index) in [
            ("1", Some(1)),
            ("2", None),
            ("device 0", Some(0)),
            ("07:00.0", Some(1)),
            ("08:00.0", None),
            ("GPU-01010101-0101-0101-0101-010101010101", Some(0)),
            ("GPU-09010101-0101-0101-0101-010101010101", None),
        ] {
            let Ok(choice) = text.parse::<Choice>();
            assert_eq!(choice.of(&all, None), index, "{text}");
        }
    }

    #[test]
    fn the_best_device_is_one_that_cuda_may_see() {
        use DeviceKind::{Discrete, Software};
        let mut all = vec![
            device(0, Software, 1, 0),
            device(1, Discrete, NVIDIA, 9),
            device(2, Discrete, NVIDIA, 7),
            device(3, Discrete, NVIDIA, 8),
        ];
        // By address: 2, 3, 1.
        for (visible, index) in [
            (None, 1),
            (Some("0"), 2),
            (Some("2,0"), 1),
            (Some(" 1 , 0"), 3),
            (Some("GPU-0404"), 3),
            (Some("GPU-04040404-0404-0404-0404-040404040404"), 3),
            (Some("7,0"), 0),
            (Some("-1"), 0),
            (Some(""), 0),
            (Some("GPU-"), 0),
            (Some("MIG-04040404-0404-0404-0404-040404040404"), 0),
        ] {
            assert_eq!(Choice::Best.of(&all, visible), Some(index), "{visible:?}");
        }
        assert_eq!(listed(&all, "1,1,0"), [3], "as in CUDA");
        all.push(device(4, Discrete, 2, 1));
        assert_eq!(Choice::Best.of(&all, Some("")), Some(4), "the list is for NVIDIA's devices");
        all[4].lacks.push("something");
        assert_eq!(Choice::Best.of(&all, Some("")), Some(0));
        assert_eq!(Choice::Best.of(&[], None), None);
    }
}
