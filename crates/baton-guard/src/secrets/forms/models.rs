//! The forms of tokens: models and what goes with them. Values are made up; the marks inside keep other scanners calm.

use super::{Check, Form};

#[rustfmt::skip]
pub(super) static FORMS: &[Form] = &[
    Form {
        kind: "anthropic-key", anchors: &["sk-ant-"],
        ahead: "sk-ant-[A-Za-z0-9_-]{20,}",
        behind: "", check: Check::Real,
        like: &[
            "key «sk-ant-api03-pTyGJMuHbEL⟦+⟧31IeL2HPcHyGcFRl1SPnXNYv⟦+⟧MIHa_2o76umfXfKm_r5kJP1Vr»",
            "x-api-key: «sk-ant-oat01-T-1F⟦+⟧Jors_6ILi8IHn5kxsC⟦+⟧7tVO_HbkQfyy_KV5zj»",
        ],
        unlike: &[
            "sk-ant-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            "sk-ant-your-key-goes-here-please",
            "sk-ant-...",
        ],
    },
    Form {
        kind: "openai-key", anchors: &["sk-"],
        ahead: "sk-(?:[a-z0-9]{2,8}-){0,3}[A-Za-z0-9_-]{20,}",
        behind: "", check: Check::Random,
        like: &[
            "«sk-4I0b3jRtaWr4Y9⟦+⟧OJFLJOqOAf1lLQSAJ⟦+⟧aiXnkU8Is2g8nprvD»",
            r#""«sk-proj-6yyzyN9zHYIa4UOr⟦+⟧GNATMuDJawTgsu8PO-799nKS⟦+⟧Nrh9UCauSDmLhuVtcqcYezdZ»""#,
            "«sk-svcacct-hfWuBByRe⟦+⟧QMsm9Wcz7uW9XFOGOeMV⟦+⟧Nen5n1Ae6pWzpF1qH6Yyt»",
            "openrouter «sk-or-v1-6f5da2cec255404⟦+⟧e4fb440034d6608697a8d41b⟦+⟧ed440e50454f31af3176813e0»",
            "deepseek «sk-2ea68ef7⟦+⟧86e4d3cea27d⟦+⟧26934b484e73»",
        ],
        unlike: &[
            "disk-performance-abcdefghijklmnopqrstuvwxyz-report.csv",
            "sk-learn-pipeline-with-standard-scaler",
            "sk-1234567890abcdef1234567890abcdef",
            r#"<div class="sk-folding-cube-loading-indicator">"#,
        ],
    },
    Form {
        kind: "groq-key", anchors: &["gsk_"],
        ahead: "gsk_[A-Za-z0-9]{20,}",
        behind: "", check: Check::Real,
        like: &[
            "«gsk_Z4fKq1OKtbgZVa⟦+⟧MWUFuXBVjdctBYVhnSg⟦+⟧9EH6yO4GFQRC5xLRwI0»",
        ],
        unlike: &[
            "gsk_xxxxxxxxxxxxxxxxxxxxxxxx",
        ],
    },
    Form {
        kind: "cerebras-key", anchors: &["csk-"],
        ahead: "csk-[a-z0-9]{40,}",
        behind: "", check: Check::Real,
        like: &[
            "«csk-1qzj865ufrdl1⟦+⟧erbfqfoeqh3av90ri⟦+⟧c7phkqdlmtt7ns26lr»",
        ],
        unlike: &[],
    },
    Form {
        kind: "huggingface-token", anchors: &["hf_", "api_org_"],
        ahead: "(?:hf_|api_org_)[A-Za-z0-9]{30,}",
        behind: "", check: Check::Random,
        like: &[
            "«hf_WzBQCABug⟦+⟧jMgeP7cGq0pb⟦+⟧qfi14ZgTsNOVM»",
            "«api_org_14tuoI⟦+⟧ZWD1IAEov4QbKD⟦+⟧Fq1Y3gqSmPsSCd»",
        ],
        unlike: &[
            "hf_hub_download(repo_id, filename)",
        ],
    },
    Form {
        kind: "xai-key", anchors: &["xai-"],
        ahead: "xai-[A-Za-z0-9]{40,}",
        behind: "", check: Check::Real,
        like: &[
            "«xai-LKRcAQX9VjUPC94TNWLAVYFe⟦+⟧RgpMPgxAFQ0FJZlCZBTToOFl9h2w⟦+⟧Jq5ty4mYwUufJSunpJC01t5gobus»",
        ],
        unlike: &[],
    },
    Form {
        kind: "perplexity-key", anchors: &["pplx-"],
        ahead: "pplx-[A-Za-z0-9]{32,}",
        behind: "", check: Check::Real,
        like: &[
            "«pplx-zgI6hwgk10zB⟦+⟧0rlz5tr9spOFBCIoX9⟦+⟧GY1cjDoBoirPfQAdzE»",
        ],
        unlike: &[
            "pplx-70b-online",
        ],
    },
    Form {
        kind: "replicate-token", anchors: &["r8_"],
        ahead: "r8_[A-Za-z0-9]{32,}",
        behind: "", check: Check::Real,
        like: &[
            "«r8_v7g5iFqhEv⟦+⟧veQzE2QPuwNOv⟦+⟧pdf2YEe6rSxCno»",
        ],
        unlike: &[],
    },
    Form {
        kind: "nvidia-key", anchors: &["nvapi-"],
        ahead: "nvapi-[A-Za-z0-9_-]{32,}",
        behind: "", check: Check::Real,
        like: &[
            "«nvapi-ZJSqgmRB9H-iMb-lk⟦+⟧777PZnK8Cl6J5ixaaJLShuQ⟦+⟧jOud_-yDUA-5zmS1swoPqApr»",
        ],
        unlike: &[],
    },
    Form {
        kind: "provider-key", anchors: &["fw_", "tgp_v1_", "jina_", "lsv2_pt_", "lsv2_sk_", "pa-", "esk_", "tvly-", "fc-", "exa-"],
        ahead: "(?:fw_|tgp_v1_|jina_|lsv2_(?:pt|sk)_|pa-|esk_|tvly-(?:dev-|prod-)?|fc-|exa-)[A-Za-z0-9_-]{22,}",
        behind: "", check: Check::Random,
        like: &[
            "«fw_1ZH87M⟦+⟧tA5vSQXEZ⟦+⟧Y3lEX7bwR»",
            "«tgp_v1_GjNGkTfi3⟦+⟧oYv2DzaKG05Rk-GQV⟦+⟧81rkmghzem9yPVUJa»",
            "«jina_g5zfjOc6VwcbIjMP⟦+⟧FLVjFUPXQzkM4Bv3aYavhN⟦+⟧YRVwDfRk9XIrghoy32NFR5»",
            "«lsv2_pt_7cced9041⟦+⟧dff02cee737443e21⟦+⟧047194_8d33296c87»",
            "«pa-ABm6jof8efD0⟦+⟧nHCY_1Kgd2vd_Er⟦+⟧1uyZAlIa_ZnYd7ch»",
            "«tvly-dev-w4SG⟦+⟧8nfnL5Ofa6qD8m⟦+⟧J7ZDNBmJaDtDLZ»",
            "«fc-ea325a65⟦+⟧e19cbae53028⟦+⟧2bd36cb9d21f»",
        ],
        unlike: &[
            "pa-rental-agreement-for-the-apartment",
            "fc-match: JetBrainsMono-Regular",
        ],
    },
];
