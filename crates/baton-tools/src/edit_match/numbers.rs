//! Line numbers: takes them away from texts that were copied with them from what `read` shows.

/// Both texts without line numbers, if every line of the old one has the number that follows the one before it.
pub(super) fn taken_away(old: &str, new: &str) -> Option<(String, String)> {
    let numbers: Vec<usize> =
        old.lines().map(|line| numbered(line).map(|(number, _)| number)).collect::<Option<_>>()?;
    let in_order = numbers.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]));
    let plain = |text: &str| -> String {
        text.split_inclusive('\n').map(|line| numbered(line).map_or(line, |(_, rest)| rest)).collect()
    };
    (in_order && !numbers.is_empty()).then(|| (plain(old), plain(new)))
}

/// The number at the beginning of a line, and what comes after it.
fn numbered(line: &str) -> Option<(usize, &str)> {
    let (number, rest) = line.split_once('\t')?;
    Some((number.trim_start_matches(' ').parse().ok()?, rest))
}
