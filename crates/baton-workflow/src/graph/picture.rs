//! The picture in a terminal: a column of boxes, an arrow to the next one, and lanes for the ways that go elsewhere.

use super::{boxes, describe, shown};
use crate::definition::{State, Workflow};
use crate::names::{Outcome, StateName};

/// The narrowest box that is drawn, and the widest.
const BOX_MIN: usize = 24;
const BOX_MAX: usize = 56;
/// Columns that a lane takes.
const LANE: usize = 2;

/// One way that is not to the next box: from a row of its box to the first row of the other.
struct Lane {
    from: usize,
    to: usize,
    column: usize,
}

/// The workflow in so many columns. Where there is no room for lanes, the boxes alone say where each outcome leads.
pub fn picture(workflow: &Workflow, columns: usize) -> String {
    let states = ordered(workflow);
    let width = states.iter().map(|state| wanted(state, workflow)).max().unwrap_or(BOX_MIN);
    // Two lanes are worth more than the end of a long line.
    let width = width.clamp(BOX_MIN, BOX_MAX).min(columns.saturating_sub(2 * LANE + 1)).max(BOX_MIN);
    let mut rows: Vec<String> = Vec::new();
    let mut tops: Vec<(&StateName, usize)> = Vec::new();
    let mut ways: Vec<(usize, &StateName)> = Vec::new();
    for (index, state) in states.iter().enumerate() {
        let next = states.get(index + 1).map(|next| &next.name);
        tops.push((&state.name, rows.len() + 1));
        draw(state, workflow, next, width, &mut rows, &mut ways);
    }
    let lanes = lanes(&ways, &tops, columns.saturating_sub(width + 2) / LANE);
    let mut grid: Vec<Vec<char>> = rows.iter().map(|row| row.chars().collect()).collect();
    // Outer lanes first, so that an inner one is drawn over what crosses it.
    for lane in lanes.iter().rev() {
        trace(&mut grid, lane, width);
    }
    let text = grid.into_iter().map(|row| row.into_iter().collect::<String>().trim_end().to_owned() + "\n");
    text.collect()
}

/// In the order of the file, the start first.
fn ordered(workflow: &Workflow) -> Vec<&State> {
    let mut states = boxes(workflow);
    states.sort_by_key(|state| state.name != workflow.start);
    states
}

fn lines<'a>(state: &'a State, workflow: &'a Workflow) -> (String, String, String, Vec<(Outcome, &'a StateName)>) {
    let (who, what) = describe(state);
    (state.name.to_string(), who, what, shown(state, workflow))
}

fn wanted(state: &State, workflow: &Workflow) -> usize {
    let (name, who, what, ways) = lines(state, workflow);
    let ways = ways.iter().map(|(outcome, target)| length(outcome.as_str()) + length(target.as_str()) + 3);
    let inner = ways.chain([length(&name) + length(&who) + 3, length(&what)]).max().unwrap_or(0);
    inner + 4
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Text that fits, or its beginning.
fn fit(text: &str, width: usize) -> String {
    if length(text) <= width {
        return format!("{text:<width$}");
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

fn draw<'a>(
    state: &'a State,
    workflow: &'a Workflow,
    next: Option<&StateName>,
    width: usize,
    rows: &mut Vec<String>,
    ways: &mut Vec<(usize, &'a StateName)>,
) {
    let inner = width - 4;
    let middle = width / 2;
    let line = |left: char, right: char, mark: Option<char>| -> String {
        let bar = (1..width - 1).map(|column| mark.filter(|_| column == middle).unwrap_or('─'));
        [left].into_iter().chain(bar).chain([right]).collect()
    };
    let (name, who, what, all) = lines(state, workflow);
    rows.push(line('┌', '┐', None));
    let gap = inner.saturating_sub(length(&name));
    let heading = format!("{name}{}", fit(&format!("{who:>gap$}"), gap));
    rows.push(format!("│ {} │", fit(&heading, inner)));
    if !what.is_empty() {
        rows.push(format!("│ {} │", fit(&what, inner)));
    }
    let mut leads_down = false;
    for (outcome, target) in all {
        rows.push(format!("│ {} │", fit(&format!("{outcome} → {target}"), inner)));
        if Some(target) == next {
            leads_down = true;
        } else if *target != state.name {
            ways.push((rows.len() - 1, target));
        }
    }
    rows.push(line('└', '┘', leads_down.then_some('┬')));
    if next.is_some() {
        let mark = if leads_down { '▼' } else { ' ' };
        rows.push(format!("{}{mark}", " ".repeat(middle)));
    }
}

/// Gives each way a column that no overlapping way has; ways for which there is no column are left out.
fn lanes(ways: &[(usize, &StateName)], tops: &[(&StateName, usize)], columns: usize) -> Vec<Lane> {
    let mut wanted: Vec<(usize, usize)> = ways
        .iter()
        .filter_map(|(from, target)| tops.iter().find(|(name, _)| name == target).map(|(_, top)| (*from, *top)))
        .collect();
    wanted.sort_by_key(|(from, to)| (from.abs_diff(*to), *from));
    let mut lanes: Vec<Lane> = Vec::new();
    for (from, to) in wanted {
        let (low, high) = (from.min(to), from.max(to));
        let is_free = |column: usize| {
            lanes
                .iter()
                .all(|lane| lane.column != column || lane.from.max(lane.to) < low || lane.from.min(lane.to) > high)
        };
        if let Some(column) = (0..columns).find(|column| is_free(*column)) {
            lanes.push(Lane { from, to, column });
        }
    }
    lanes.sort_by_key(|lane| lane.column);
    lanes
}

fn trace(grid: &mut [Vec<char>], lane: &Lane, width: usize) {
    let column = width + 1 + lane.column * LANE;
    let (low, high) = (lane.from.min(lane.to), lane.from.max(lane.to));
    for row in low..=high {
        put(grid, row, column, '│');
    }
    put(grid, low, column, '┐');
    put(grid, high, column, '┘');
    for row in [lane.from, lane.to] {
        for across in width..column {
            put(grid, row, across, '─');
        }
    }
    put(grid, lane.from, width - 1, '├');
    put(grid, lane.to, width, '◀');
}

/// Puts a part of a lane; where it meets another, both are seen.
fn put(grid: &mut [Vec<char>], row: usize, column: usize, part: char) {
    let Some(line) = grid.get_mut(row) else { return };
    while line.len() <= column {
        line.push(' ');
    }
    line[column] = match (line[column], part) {
        ('◀', _) => '◀',
        ('│', '─') | ('─', '│') => '┼',
        ('┐' | '┘', '─') => '┴',
        (_, part) => part,
    };
}
