// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers of text traces as exact integers.

/// An integer without sign.
pub(crate) fn integer(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    let mut value = 0u64;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// A decimal number without sign, in units of 10^-`places`; further digits are cut off. It may have an exponent.
pub(crate) fn decimal(text: &[u8], places: u32) -> Option<u64> {
    plain(text, places).or_else(|| shifted(text, places))
}

/// [`decimal`] without exponent.
fn plain(text: &[u8], places: u32) -> Option<u64> {
    let mut value = 0u64;
    let mut places_seen = 0;
    let mut point = false;
    let mut digits = 0;
    for &byte in text {
        match byte {
            b'0'..=b'9' => {
                digits += 1;
                if point {
                    if places_seen == places {
                        continue;
                    }
                    places_seen += 1;
                }
                value = value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
            }
            b'.' if !point => point = true,
            _ => return None,
        }
    }
    if digits == 0 {
        return None;
    }
    value.checked_mul(10u64.checked_pow(places - places_seen)?)
}

/// [`decimal`] with an exponent, as Python prints small numbers (`6.5e-05`). Its point is moved, so that the digits stay
/// exact: the double next to 6.5e-05 s lies below 65,000 ns.
fn shifted(text: &[u8], places: u32) -> Option<u64> {
    let (number, power) = text.split_at(text.iter().position(|b| matches!(b, b'e' | b'E'))?);
    let (negative, power) = match &power[1..] {
        [b'-', power @ ..] => (true, power),
        [b'+', power @ ..] | power => (false, power),
    };
    let power = i64::try_from(integer(power)?).ok()?;
    let point = number.iter().position(|&b| b == b'.').unwrap_or(number.len());
    let (whole, part) = (&number[..point], number.get(point + 1..).unwrap_or_default());
    let count = whole.len() + part.len();
    // How many of the digits count, before zeros that follow them.
    let counted = (whole.len() as i64 + i64::from(places)).checked_add(if negative { -power } else { power })?;
    let mut value = 0u64;
    for (&byte, at) in whole.iter().chain(part).zip(0i64..) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        if at < counted {
            value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        }
    }
    let mut zeros = count as i64..counted;
    match (count, value) {
        (0, _) => None,
        (_, 0) => Some(0),
        _ => zeros.try_fold(value, |value, _| value.checked_mul(10)),
    }
}

#[cfg(test)]
mod tests {
    use linnet_sim::Chance;

    use super::*;

    #[test]
    fn decimals_are_exact_integers() {
        assert_eq!(decimal(b"0.091", 6), Some(91_000));
        assert_eq!(decimal(b"1455592511.153034", 9), Some(1_455_592_511_153_034_000));
        assert_eq!(decimal(b"7", 3), Some(7000));
        assert_eq!(decimal(b"7.", 3), Some(7000));
        assert_eq!(decimal(b".5", 3), Some(500));
        assert_eq!(decimal(b"0.1234567891", 9), Some(123_456_789));
        assert_eq!(decimal(b"1e-05", 9), Some(10_000));
        assert_eq!(decimal(b"18446744073.709551615", 9), Some(u64::MAX));
        for wrong in
            ["", ".", "-1", "1.2.3", "1,5", "abc", "e5", "1e400", "18446744073.709551616", "99999999999999999999", " 1"]
        {
            assert_eq!(decimal(wrong.as_bytes(), 9), None, "{wrong}");
        }
    }

    /// Python's `repr` and Rust's `{:e}` print the same digits, the shortest that name the double.
    #[test]
    fn an_exponent_moves_the_point_and_rounds_nothing() {
        let mut chance = Chance::new(13);
        for _ in 0..20_000 {
            let (digits, shift, places) = (1 + chance.below(10u64.pow(15)), chance.below(16) as u32, 9);
            let text = format!("{:e}", digits as f64 / 10f64.powi(shift as i32));
            let exact = u128::from(digits) * 10u128.pow(places) / 10u128.pow(shift);
            assert_eq!(decimal(text.as_bytes(), places), u64::try_from(exact).ok(), "{digits} / 10^{shift} is {text}");
        }
        for (text, places, exact) in [
            ("6.5e-05", 9, Some(65_000)),
            ("9.5E-05", 9, Some(95_000)),
            ("1.5e+3", 3, Some(1_500_000)),
            ("1.8446744073709551615e19", 0, Some(u64::MAX)),
            ("1.8446744073709551616e19", 0, None),
            ("18446744073709551616000e-3", 0, None),
            ("18446744073709551615000e-3", 0, Some(u64::MAX)),
            ("9.99e-10", 9, Some(0)),
            ("1e-4000000000", 9, Some(0)),
            ("0e4000000000", 9, Some(0)),
            ("1e4000000000", 9, None),
            ("7.e1", 0, Some(70)),
            (".7e1", 0, Some(7)),
        ] {
            assert_eq!(decimal(text.as_bytes(), places), exact, "{text}");
        }
        for wrong in ["1e", "1e+", "1e1.5", ".e1", "1e--1", "1.2.3e1", "1e1e1", "1 e1", "-1e1"] {
            assert_eq!(decimal(wrong.as_bytes(), 9), None, "{wrong}");
        }
    }

    #[test]
    fn whole_numbers_stop_at_64_bits() {
        assert_eq!(integer(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(integer(b"00000000000000000007"), Some(7));
        for wrong in ["", "18446744073709551616", "-1", "+1", "1.0", "0x10", "99999999999999999999999999"] {
            assert_eq!(integer(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
