//! Maps of sparse members: the ranges of a file that an archive stores.

use super::pax::Records;

/// `(offset, length)` of each stored range, in stored order.
pub(crate) type Ranges = Vec<(u64, u64)>;

/// Most ranges of a map that is read: an archive of a few bytes can claim any number of them. A map that has
/// more is read to one range beyond.
pub(crate) const MAX_RANGES: usize = 1 << 20;

/// True for a valid map: ranges ascend, do not overlap, and end within `size`.
pub(crate) fn is_map(ranges: &Ranges, size: u64) -> bool {
    let mut end = 0;
    ranges.iter().all(|(offset, len)| {
        let fits = *offset >= end && offset.checked_add(*len).is_some_and(|end| end <= size);
        end = offset.saturating_add(*len);
        fits
    })
}

/// Reads the map of the pax forms 0.0 (one record a number) and 0.1 (one record for all); `None` where it is
/// missing or damaged.
pub(crate) fn from_records(records: &Records) -> Option<Ranges> {
    let numbers: Vec<u64> = if let Some(map) = records.get("GNU.sparse.map") {
        let text = std::str::from_utf8(map).ok()?;
        let numbers = text.split(',').take(2 * (MAX_RANGES + 1));
        numbers.map(|number| number.parse().ok()).collect::<Option<_>>()?
    } else {
        let wanted = |key: &[u8]| key == b"GNU.sparse.offset" || key == b"GNU.sparse.numbytes";
        let found = records.all().filter(|(key, _)| wanted(key)).take(2 * (MAX_RANGES + 1));
        found.map(|(_, value)| std::str::from_utf8(value).ok()?.parse().ok()).collect::<Option<_>>()?
    };
    let (pairs, rest) = numbers.as_chunks::<2>();
    (rest.is_empty() && !pairs.is_empty()).then(|| pairs.iter().map(|pair| (pair[0], pair[1])).collect())
}

/// Reads the map of the pax form 1.0, which precedes the content: decimal numbers, one a line, padded to 512
/// bytes. `block` reads the next 512 bytes.
pub(crate) fn from_content<E>(
    mut block: impl FnMut(&mut [u8; 512]) -> Result<(), E>,
) -> Result<Option<Ranges>, E> {
    let mut data = [0; 512];
    let mut at = data.len();
    let mut number = || -> Result<Option<u64>, E> {
        let mut value: u64 = 0;
        loop {
            if at == data.len() {
                block(&mut data)?;
                at = 0;
            }
            let byte = data[at];
            at += 1;
            match byte {
                b'\n' => return Ok(Some(value)),
                b'0'..=b'9' => {
                    let next = value.checked_mul(10).and_then(|v| v.checked_add(u64::from(byte - b'0')));
                    match next {
                        Some(next) => value = next,
                        None => return Ok(None),
                    }
                }
                _ => return Ok(None),
            }
        }
    };
    let Some(count) = number()? else { return Ok(None) };
    let mut ranges = Vec::new();
    for _ in 0..count.min(MAX_RANGES as u64 + 1) {
        match (number()?, number()?) {
            (Some(offset), Some(len)) => ranges.push((offset, len)),
            _ => return Ok(None),
        }
    }
    Ok(Some(ranges))
}

/// Encodes the map of form 1.0 for a file of `size` bytes.
pub(crate) fn to_content(ranges: &Ranges, size: u64) -> Vec<u8> {
    debug_assert!(is_map(ranges, size), "ranges of a volume's file ascend and do not overlap");
    let ends_in_hole = ranges.last().is_none_or(|(offset, len)| offset + len < size);
    let mut text = format!("{}\n", ranges.len() + usize::from(ends_in_hole));
    for (offset, len) in ranges {
        text.push_str(&format!("{offset}\n{len}\n"));
    }
    if ends_in_hole {
        text.push_str(&format!("{size}\n0\n"));
    }
    let mut map = text.into_bytes();
    map.resize(map.len().next_multiple_of(512), 0);
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_come_back_from_every_form() {
        let ranges: Ranges = (0..100).map(|i| (i << 20, 4096)).collect();
        let map = to_content(&ranges, 1 << 40);
        let mut blocks = map.as_chunks::<512>().0.iter();
        let next = |data: &mut [u8; 512]| {
            *data = *blocks.next().ok_or(())?;
            Ok::<(), ()>(())
        };
        let mut with_end = ranges.clone();
        with_end.push((1 << 40, 0));
        assert_eq!(from_content(next), Ok(Some(with_end)));
        assert!(blocks.next().is_none());

        let mut records = Records::default();
        records.push("GNU.sparse.map", "0,5,10,5");
        assert_eq!(from_records(&records), Some(vec![(0, 5), (10, 5)]));
        let mut records = Records::default();
        for (key, value) in [("offset", "0"), ("numbytes", "5"), ("offset", "10"), ("numbytes", "5")] {
            records.push(format!("GNU.sparse.{key}"), value);
        }
        assert_eq!(from_records(&records), Some(vec![(0, 5), (10, 5)]));
    }

    #[test]
    fn a_map_of_any_length_is_read_to_the_bound() {
        let mut block = b"9999999999\n".to_vec();
        block.resize(512, b'\n');
        let next = |data: &mut [u8; 512]| {
            data.copy_from_slice(&std::mem::replace(&mut block, vec![b'\n'; 512]));
            Ok::<(), ()>(())
        };
        assert_eq!(from_content(next).unwrap().unwrap().len(), MAX_RANGES + 1);
        let mut records = Records::default();
        records.push("GNU.sparse.map", vec!["0,0"; MAX_RANGES + 5].join(","));
        assert_eq!(from_records(&records).unwrap().len(), MAX_RANGES + 1);
    }

    #[test]
    fn a_map_that_is_none_is_refused() {
        assert!(is_map(&vec![(0, 5), (5, 5), (20, 0)], 20));
        for bad in [vec![(5, 5), (0, 5)], vec![(0, 21)], vec![(u64::MAX, 2)]] {
            assert!(!is_map(&bad, 20));
        }
        for text in ["x\n", "1\n5", "99999999999999999999\n"] {
            let mut once = Some(text);
            let block = |data: &mut [u8; 512]| {
                let text = once.take().ok_or(())?;
                data[..text.len()].copy_from_slice(text.as_bytes());
                Ok(())
            };
            assert!(!matches!(from_content::<()>(block), Ok(Some(_))));
        }
    }
}
