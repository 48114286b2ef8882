"""The published examples: all are read and right, every printed digit counts, and what is off is explained as far as it can be."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from attn_lib.worked_examples import (
    CostExample,
    check_example,
    forms,
    load_builtin,
    load_example,
    load_published,
    published_examples,
)

ROOT = Path(__file__).parents[2]
FILES = {path.stem: path for path in published_examples()}
WITH_ERRATA = {
    "alammar_illustrated_gpt2_mask": "scale by sqrt(16), which the settings do not have (explains all 20 of the 20 ",
    "deepml_94_example_identity": "softmax left out (explains all 4 of the 4 ",
    "flops_gpt2_family_cs336": None,
    "karpathy_copy_wrong_b": None,
    "kv_hf_optimization_doc": None,
    "omkarchebale_please_study_man": None,
    "raimi_karim_illustrated": "what is printed carried on (explains all 8 wrong numbers after weights, not those in it)",
    "rohitg00_softmax_row": None,
}


def texts(example) -> list[str]:
    """All prose of a file."""
    if isinstance(example, CostExample):
        said = [text for cost in example.costs for text in (cost.why, cost.says)]
    else:
        said = [erratum.why for erratum in example.errata] + [claim.says for claim in example.claims]
    return [example.title, example.note, *example.source.values(), *said]


def test_there_are_as_many_as_were_collected():
    assert len(FILES) == 24
    assert load_published("rukenx_06_mqa").name == "rukenx_06_mqa.yml"  # where the package lies is nobody's business
    with pytest.raises(ValueError, match="name must be one of .*'rukenx_06_mqa'.*got 'self_attention_love'"):
        load_published("self_attention_love")
    with pytest.raises(ValueError, match="got 'rukenx_06_mqa'"):
        load_builtin("rukenx_06_mqa")


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_right_and_its_errata_are_those_that_are_known(name):
    report = check_example(load_published(name))
    assert report.verdict == "right", report.line
    assert report.checked > 0
    assert bool(report.errata) == (name in WITH_ERRATA)
    explained = WITH_ERRATA.get(name)
    assert (report.usual_mistake or "").startswith(explained or "") and (report.usual_mistake is None) == (
        not explained
    )
    wrong = [finding for row in report.rows for finding in row.findings if finding.status == "erratum"]
    assert bool(wrong) == (name in WITH_ERRATA)


def neighbour(text: str) -> str:
    """A number that is off by one unit of its last digit."""
    sign, digits, exponent = Decimal(text).as_tuple()
    value = int("".join(map(str, digits))) + 1
    mantissa, _, power = text.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    shifted = f"{Decimal((sign, tuple(map(int, str(value))), -decimals)):f}"
    assert exponent == int(power or 0) - decimals
    return f"{shifted}e{power}" if power else shifted


def test_a_neighbour_is_one_unit_away():
    assert [neighbour(text) for text in ("0.930", "-1.", "12", "9.99e-05")] == ["0.931", "-2", "13", "10.00e-05"]


@pytest.mark.parametrize("name", FILES)
def test_no_printed_digit_is_idle(name):
    example = load_published(name)
    survivors = []
    if isinstance(example, CostExample):
        for i, cost in enumerate(example.costs):
            changed = replace(cost, text=neighbour(cost.text))
            costs = (*example.costs[:i], changed, *example.costs[i + 1 :])
            report = check_example(replace(example, costs=costs))
            # A neighbour of an erratum may be off as well; that it is the right number's neighbour would show.
            if report.verdict == "right" and cost.right is None:
                survivors.append(cost)
    else:
        for i, entry in enumerate(example.printed):
            for j, number in enumerate(entry.numbers):
                if number.text == "-inf":
                    continue
                changed = replace(number, text=neighbour(number.stated))
                numbers = (*entry.numbers[:j], changed, *entry.numbers[j + 1 :])
                printed = (*example.printed[:i], replace(entry, numbers=numbers), *example.printed[i + 1 :])
                mutant = replace(example, printed=printed)
                mutant.__dict__["_exact"] = example.trace()  # nothing given was changed
                if check_example(mutant).verdict == "right":
                    survivors.append(number)
    assert survivors == []


@pytest.mark.parametrize("name", FILES)
def test_every_source_can_be_found(name):
    source = load_published(name).source
    assert {"document", "section"} <= source.keys()
    assert "url" in source or "address is not known" in source["read_as"]
    if "url" in source:
        assert re.fullmatch(r"https://\S+", source["url"])
    if "github.com" in source.get("url", ""):
        assert re.fullmatch("[0-9a-f]{40}", source["commit"]) and source["commit"] in source["url"]
    elif "url" in source and "commit" not in source:
        assert "read_as" in source or name.startswith("kv_")


@pytest.mark.parametrize("name", FILES)
def test_nothing_of_the_workshop_stands_in_a_file(name):
    assert not re.search("index id|stored copy|/work|shared", FILES[name].read_text(encoding="utf-8"))
    assert all("  " not in text for text in texts(load_published(name)))


def test_schemas_accept_the_files_as_an_editor_reads_them():
    import yaml
    from jsonschema import Draft202012Validator

    folder = FILES["rukenx_06_mqa"].parents[1]
    kinds = {}
    for file in ("schema.json", "cost_schema.json"):
        kinds[file] = json.loads((folder / file).read_text(encoding="utf-8"))
        Draft202012Validator.check_schema(kinds[file])
    for path in FILES.values():
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
        schema = kinds["cost_schema.json" if "costs" in read else "schema.json"]
        assert list(Draft202012Validator(schema).iter_errors(read)) == [], path.name


def test_the_package_ships_every_file():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["attn_lib.worked_examples"]
    folder = ROOT / "attn_lib" / "worked_examples"
    shipped = {path for pattern in patterns for path in folder.glob(pattern)}
    assert shipped == {path for path in folder.rglob("*") if path.suffix in {".yml", ".json"}}


def test_mistakes_that_the_files_show_are_given_by_the_calculation_that_has_them():
    """Each explanation again, by hand, without the list of usual mistakes."""
    import torch
    from torch import float64

    masked = load_published("alammar_illustrated_gpt2_mask")
    quarter = (masked.tensor("masked_scores") / 4).softmax(-1)
    stated = torch.tensor([[float(text) for text in row] for row in masked.printed_values("weights")], dtype=float64)
    torch.testing.assert_close(quarter.round(decimals=2), stated, rtol=0, atol=1e-9)

    identity = load_published("deepml_94_example_identity")
    Q, K, V = (identity.tensor(name) for name in "QKV")  # [H, T, 1]
    torch.testing.assert_close((Q @ K.mT @ V).transpose(0, 1).reshape(2, 2), torch.eye(2, dtype=float64))

    row = load_published("rohitg00_softmax_row")
    with_a_sixth = torch.cat([row.tensor("scores")[0], torch.tensor([0.5], dtype=float64)]).softmax(0)
    printed = torch.tensor([float(text) for text in row.printed_values("weights", 0)], dtype=float64)
    torch.testing.assert_close(with_a_sixth[:5].round(decimals=2), printed, rtol=0, atol=1e-9)


def keys_of(schema: dict) -> set[str]:
    """Every key that a file may have, as the schema names it."""
    found: set[str] = set()
    for key, part in schema.items():
        if key == "properties":
            found |= set(part)
        if isinstance(part, dict):
            found |= keys_of(part)
        elif isinstance(part, list):
            found |= set().union(*(keys_of(each) for each in part if isinstance(each, dict)))
    return found


@pytest.mark.parametrize(("form", "schema"), [("calculation", "schema.json"), ("costs", "cost_schema.json")])
def test_the_forms_are_right_and_name_every_key_that_a_file_may_have(form, schema):
    path = {path.stem: path for path in forms()}[form]
    report = check_example(load_example(path))
    assert report.verdict == "right" and report.errata and report.name == f"{form}.yml"
    words = set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    keys = keys_of(json.loads((path.parents[1] / schema).read_text(encoding="utf-8")))
    assert len(keys) > 25
    assert keys - words == ({"value"} if form == "calculation" else set())  # value belongs to difference


def test_a_changed_file_is_wrong(tmp_path):
    path = tmp_path / "changed.yml"
    text = FILES["rohitg00_softmax_row"].read_text(encoding="utf-8")
    assert text.count("[2.1, ") == 1
    path.write_text(text.replace("[2.1, ", "[2.2, "), encoding="utf-8")
    assert check_example(load_example(path)).verdict == "wrong"
