//! The list of targets, and where their samples are.

mod config;
mod edit;
mod foreign;
mod lines;
mod marks;
mod patch;
mod proxy;
mod session;
mod wire;

use std::path::{Path, PathBuf};

use baton_llm::wire::Wire;

/// One parser and what it promises.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Panics if a promise is broken.
    pub check: fn(&[u8]),
    /// Words that mean something to it.
    pub words: &'static [&'static str],
    /// Files of samples outside of `seeds/NAME/`: those whose paths begin like this.
    samples: &'static str,
}

/// All targets.
pub const TARGETS: [Target; 14] = [
    Target {
        name: "anthropic",
        check: |bytes| wire::check(Wire::Anthropic, bytes),
        words: &[
            "data: ",
            "event: ",
            "\n\n",
            "message_stop",
            "input_json_delta",
            "content_block_start",
            "\"index\":1",
            "ping",
        ],
        samples: "crates/baton-llm/tests/streams/anthropic_",
    },
    Target {
        name: "responses",
        check: |bytes| wire::check(Wire::Responses, bytes),
        words: &[
            "data: ",
            "\n\n",
            "response.completed",
            "response.output_item.done",
            "function_call",
            "reasoning",
            "\"output_index\":0",
        ],
        samples: "crates/baton-llm/tests/streams/responses_",
    },
    Target {
        name: "chat",
        check: |bytes| wire::check(Wire::Chat, bytes),
        words: &[
            "data: ",
            "\n\n",
            "[DONE]",
            "tool_calls",
            "reasoning_content",
            "finish_reason",
            "\"index\":0",
            "<think>",
        ],
        samples: "crates/baton-llm/tests/streams/chat_",
    },
    Target {
        name: "gemini",
        check: |bytes| wire::check(Wire::Gemini, bytes),
        words: &[
            "data: ",
            "\n\n",
            "functionCall",
            "thoughtSignature",
            "\"thought\":true",
            "finishReason",
            "promptFeedback",
        ],
        samples: "crates/baton-llm/tests/streams/gemini_",
    },
    Target {
        name: "edit",
        check: edit::check,
        words: &["\n=====\n", "\r\n", "\t", "    ", "\u{201C}", "\u{2019}", "\u{A0}", "\u{2014}", "é", "\u{FEFF}"],
        samples: "",
    },
    Target {
        name: "patch",
        check: patch::check,
        words: &[
            "\n=====\n",
            "*** Begin Patch\n",
            "*** End Patch\n",
            "*** Update File: a\n",
            "*** Add File: b\n",
            "*** Move to: c\n",
            "*** End of File\n",
            "@@\n",
            "@@ -1,2 +3,4 @@\n",
            "\r\n",
            "\n+",
            "\n-",
            "\n ",
            "\u{FEFF}",
        ],
        samples: "",
    },
    Target {
        name: "script",
        check: lines::check_script,
        words: &[
            "\"say\":",
            "\"call\":",
            "\"when\":",
            "\"repeat\":",
            "\"fail\":",
            "\"role\":",
            "true",
            "18446744073709551615",
        ],
        samples: "demo/",
    },
    Target {
        name: "cassette",
        check: lines::check_cassette,
        words: &["\"exchange\":", "\"after\":", "\"messages\":", "\"body\":", "\"withheld\":", "18446744073709551615"],
        samples: "",
    },
    Target {
        name: "marks",
        check: marks::check,
        words: &["data: ", marks::KEY, "/home/me/p", "/home/me", "{baton:project}", "{baton:key:A_KEY}", "\\n"],
        samples: "crates/baton-llm/tests/streams/",
    },
    Target {
        name: "proxy",
        check: proxy::check,
        words: &[
            "\r\n",
            "\r\n\r\n",
            "CONNECT ",
            "GET http://",
            "example.com",
            ":443",
            " HTTP/1.1\r\n",
            "Host: ",
            "Content-Length: 1\r\n",
            "Transfer-Encoding: chunked\r\n",
            "[::1]",
            "@",
        ],
        samples: "",
    },
    Target {
        name: "config",
        check: config::check,
        words: &[
            "\n=====\n",
            "//",
            "/*",
            "*/",
            "{",
            "}",
            ",",
            "null",
            "1e999",
            "\\u0000",
            "\"providers\"",
            "\"retry\"",
            "\"models\"",
        ],
        samples: "crates/baton-llm/models",
    },
    Target {
        name: "claude_code",
        check: foreign::check,
        words: &[
            "\"user\"",
            "\"tool_result\"",
            "\"parentUuid\":",
            "\"u-04\"",
            "\"isSidechain\":true",
            "\n",
            "null",
            "[]",
        ],
        samples: "tests/samples/claude_code",
    },
    Target {
        name: "codex",
        check: foreign::check,
        words: &[
            "\"response_item\"",
            "\"function_call\"",
            "\"call_id\":",
            "\"user\"",
            "\"session_meta\"",
            "\n",
            "null",
        ],
        samples: "tests/samples/codex_rollout",
    },
    Target {
        name: "session",
        check: session::check,
        words: &[
            "\n",
            "\r\n",
            "\0",
            "\u{2028}",
            "{\"id\":\"",
            "\"parent\":\"",
            "\"kind\":\"compacted\"",
            ",\"n\":",
            ",\"crc\":\"",
            "\"}",
            "18446744073709551615",
        ],
        samples: "",
    },
];

impl Target {
    /// The target of this name.
    pub fn named(name: &str) -> Option<Self> {
        TARGETS.into_iter().find(|target| target.name == name)
    }

    /// Its own samples, and where what was found belongs once it is mended.
    pub fn seeds_dir(&self) -> PathBuf {
        root().join("fuzz/seeds").join(self.name)
    }

    /// All samples, in a fixed order.
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        let mut files = files_in(&self.seeds_dir());
        if !self.samples.is_empty() {
            let start = root().join(self.samples).to_string_lossy().into_owned();
            let dir = if self.samples.ends_with('/') { PathBuf::from(&start) } else { parent(&start) };
            files.extend(files_in(&dir).into_iter().filter(|file| file.to_string_lossy().starts_with(&start)));
        }
        files.iter().filter_map(|file| std::fs::read(file).ok()).collect()
    }
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn parent(path: &str) -> PathBuf {
    Path::new(path).parent().map(Path::to_owned).unwrap_or_default()
}

fn files_in(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

/// A case that holds several texts, apart by a line of `=====`. What is not there is empty.
fn parts<const N: usize>(case: &[u8]) -> [&[u8]; N] {
    const APART: &[u8] = b"\n=====\n";
    let mut rest = Some(case);
    std::array::from_fn(|number| {
        let Some(whole) = rest else { return &[][..] };
        let found = (number + 1 < N).then(|| whole.windows(APART.len()).position(|window| window == APART)).flatten();
        let (part, after) = match found {
            Some(at) => (&whole[..at], Some(&whole[at + APART.len()..])),
            None => (whole, None),
        };
        rest = after;
        part
    })
}

/// The case's own dice: the same for the same bytes.
fn dice(case: &[u8]) -> fastrand::Rng {
    let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    fastrand::Rng::with_seed(case.iter().fold(0xCBF2_9CE4_8422_2325, mix))
}
