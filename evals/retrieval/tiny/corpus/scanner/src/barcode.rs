//! Barcodes and the digit that proves them.

/// The digits of a label without their check digit.
#[derive(Debug, Clone, PartialEq)]
pub struct Barcode(pub String);

/// Weights 3 and 1 by turns, modulo 10, as on every EAN label.
pub fn check_digit(digits: &str) -> u32 {
    let sum: u32 = digits
        .chars()
        .rev()
        .filter_map(|digit| digit.to_digit(10))
        .zip([3, 1].into_iter().cycle())
        .map(|(digit, weight)| digit * weight)
        .sum();
    (10 - sum % 10) % 10
}
