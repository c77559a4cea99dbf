"""Figure 1 shows DeepSeek's models as published and as measured, and stand-ins by themselves."""

from __future__ import annotations

import numpy as np
import pytest
from drawn import overlapping, said, texts
from planted_deepseek import LOST, ROWS, STAND_INS, THEIRS, completion, planted_deepseek

from weakspots import statistics
from weakspots.analysis import paper_numbers
from weakspots.config.deepseek import DeepseekModel, StandInShape
from weakspots.errors import UserError
from weakspots.figures import figure_1, figure_1_models

LAYERS = {"stand-in": LOST, "stand-in-flat": {0: [50.0], 1: [95.0]}}


def drawn(**planting):
    return figure_1.draw(figure_1.measure(planted_deepseek(**planting)))


@pytest.fixture(scope="module")
def tables():
    return figure_1.measure(planted_deepseek(lost=LAYERS))


@pytest.fixture(scope="module")
def laptop():
    """Only the stand-ins have been run."""
    return drawn(run=tuple(STAND_INS), lost=LAYERS)


def panel(figure, name: str):
    """The panel whose heading names the model."""
    (found,) = [axes for axes in figure.axes if name in [text.get_text() for text in axes.texts]]
    return found


def curves(axes, **style) -> list[np.ndarray]:
    """What the lines of a panel show, borders of periods left out."""
    lines = [line for line in axes.lines if len(set(line.get_xdata())) > 1]
    return [line.get_ydata() for line in lines if line.get_linestyle() == style["linestyle"]]


def words(axes) -> str:
    titles = [axes.get_title(loc=loc) for loc in ("center", "left")]
    return "\n".join([*(text.get_text() for text in axes.texts), *titles])


# Tables


def test_every_model_has_a_row_per_residue_and_source_or_says_that_it_was_not_run():
    table = figure_1.measure(planted_deepseek(run=("flash-base", "stand-in"))).needle
    rows = table.groupby(["model", "source"], sort=False)["accuracy"].agg(["size", "count"])
    assert rows.loc[("flash-base", "here")].tolist() == [8, 8] == rows.loc[("flash-base", "paper")].tolist()
    assert rows.loc[("pro-base", "here")].tolist() == [1, 0] and rows.loc[("pro-base", "paper")].tolist() == [8, 8]
    assert rows.loc[("v3.1-base", "here")].tolist() == [1, 0] and ("v3.1-base", "paper") not in rows.index
    assert rows.loc[("stand-in", "here")].tolist() == [8, 8] and ("stand-in", "paper") not in rows.index
    assert table["model"].unique().tolist() == list(ROWS)


def test_intervals_are_wilsons_of_the_prompts_of_a_residue(tables):
    for source in ("paper", "here"):
        run = tables.needle[(tables.needle["model"] == "v4.1-flash") & (tables.needle["source"] == source)]
        low, high = statistics.wilson(np.array([2432, 2284, 2435, 2296, 2424, 2312, 2440, 2297]), 2560)
        np.testing.assert_allclose(run["low"].astype(float), low)
        np.testing.assert_allclose(run["high"].astype(float), high)
        assert set(run["n"]) == {2560}


def test_a_stand_in_has_no_paper_numbers_whatever_it_is_called():
    results = planted_deepseek(run=())
    results.deepseek["flash-base"] = DeepseekModel(
        label="DeepSeek-V4-Flash-Base", stride=4, stand_in=StandInShape(layers=["compressed_sparse_attention"])
    )
    tables = figure_1.measure(results)
    for table in (tables.needle, tables.completion, tables.layers):
        assert not ((table["model"] == "flash-base") & (table["source"] == "paper")).any()
    assert "flash-base" not in set(tables.rankings["model"])
    assert "DeepSeek-V4-Flash-Base" not in said(figure_1.draw(tables))


def test_rankings_are_counted_by_model_and_the_period_fits_where_the_code_shifts_it():
    shifted = completion(first_phases=(0, 1), against=6)
    steady = completion(first_phases=range(4))
    table = figure_1.measure(planted_deepseek(completions={"flash-base": shifted, "v3.1-base": steady})).rankings
    table = table.set_index("model")
    assert list(table.index) == list(THEIRS)
    flash = table.loc["flash-base"]
    assert (flash["following"], flash["n"], flash["phases"]) == (58, 64, "0, 1")
    assert (flash["paper_following"], flash["paper_n"]) == (60, 64)
    assert table.loc["v3.1-base", "following"] == 32 and table.loc["v3.1-base", "second_on_top"] == 0
    assert table["following"].isna().sum() == 4


def test_a_period_of_two_is_a_period_of_two():
    table = figure_1.measure(planted_deepseek(completions={"v4.1-flash": completion(2, (1,))})).rankings
    row = table.set_index("model").loc["v4.1-flash"]
    assert row["following"] == 64 and row["period"] == 2 and row["phases"] == "1"


def test_layer_changes_are_relative_to_the_clean_accuracy_of_the_residue(tables):
    results = planted_deepseek(lost=LAYERS)
    clean, knocked = (statistics.profile(results.layer_knockouts["stand-in"][layer]) for layer in (-1, 3))
    row = tables.layers.query("model == 'stand-in' and layer == 3")
    np.testing.assert_allclose(row["change"], 100 * (knocked - clean) / clean)
    theirs = tables.layers.query("source == 'paper'")
    assert theirs["layer"].unique().tolist() == [10, 22, 24] and set(theirs["model"]) == {"flash-base"}
    np.testing.assert_allclose(theirs.query("layer == 22")["change"], paper_numbers.layer_knockout("flash-base")[22])
    assert -1 not in set(tables.layers["layer"])


def test_layer_knockouts_without_the_model_as_it_is_are_refused():
    results = planted_deepseek()
    del results.layer_knockouts["stand-in"][-1]
    with pytest.raises(UserError, match="layer knockouts of stand-in lack the model as it is"):
        figure_1.measure(results)


# The figure


def test_where_nothing_was_run_everything_says_so_and_the_published_curves_stand_alone():
    figure = drawn(run=())
    for model, row in THEIRS.items():
        axes = panel(figure, row.label)
        assert "not run" in words(axes) and not curves(axes, linestyle="-")
        theirs = curves(axes, linestyle="--")
        if (known := paper_numbers.needle(model)) is None:
            assert not theirs and "not published" in words(axes)
        else:
            np.testing.assert_allclose(theirs, [100 * known[0] / known[1]])
    stand_in = panel(figure, figure_1_models.STAND_IN)
    assert not curves(stand_in, linestyle="-")
    assert [text.get_text().endswith("not run") for text in stand_in.get_legend().get_texts()] == [True, True]
    assert len([image for axes in figure.axes for image in axes.images]) == 1, "the paper's layers, and no other map"
    # the heading; needles, the stand-ins' panel and legend; completion: curves and rankings; the map and its heading
    assert said(figure).count("not run") == 1 + 6 + 1 + 2 + 1 + 6 + 2


def test_what_was_measured_is_drawn_beside_what_is_published(tables):
    figure = figure_1.draw(tables)
    axes = panel(figure, "DeepSeek-V4-Pro-0813")
    assert "not run" not in words(axes) and "paper n = 256 · here n = 256" in words(axes)
    here = tables.needle.query("model == 'pro-0813' and source == 'here'")["accuracy"]
    assert [len(values) for values in curves(axes, linestyle="-")] == [4, 4], "a line is solid within a period"
    np.testing.assert_allclose(np.concatenate(curves(axes, linestyle="-")), here)
    assert [len(values) for values in curves(panel(figure, "DeepSeek-V4.1-Flash"), linestyle="-")] == [2] * 4


def test_stand_ins_have_a_panel_of_their_own_with_their_control(laptop):
    axes = panel(laptop, figure_1_models.STAND_IN)
    assert "no number here is DeepSeek's" in words(axes)
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["stand-in, S = 4\nhere n = 256", "stand-in without compression (control)\nhere n = 256"]
    solid = curves(axes, linestyle="-")
    assert sorted(len(values) for values in solid) == [4, 4, 8]
    for row in THEIRS.values():
        assert not curves(panel(laptop, row.label), linestyle="-"), "nothing measured stands under a name of DeepSeek's"


def test_no_stand_in_is_called_by_a_name_of_deepseeks_in_any_part():
    results = planted_deepseek(run=tuple(STAND_INS), lost=LAYERS)
    for model, row in STAND_INS.items():
        results.deepseek[model] = row.model_copy(update={"label": f"DeepSeek-V4-Tiny-{model}"})
    tables = figure_1.measure(results)
    for table in (tables.needle, tables.completion, tables.layers):
        measured = table[(table["source"] == "here") & ~table["model"].isin(list(THEIRS))]
        assert set(measured["label"]) <= {figure_1_models.STAND_IN, figure_1_models.CONTROL}
    assert figure_1_models.STAND_IN == "stand-in (tiny model of the same architecture, trained here)"
    assert "Tiny" not in said(figure_1.draw(tables))


def test_maps_hold_what_was_measured_and_a_missing_one_says_so(laptop):
    maps = [image.get_array() for axes in laptop.axes for image in axes.images]
    assert [values.shape for values in maps] == [(3, 8), (4, 8), (2, 8)]
    np.testing.assert_allclose(maps[0][0], paper_numbers.layer_knockout("flash-base")[10])
    assert (maps[2][1] < -80).all() and (maps[1][0] < -80).all()
    assert "paper, layers 10, 22, 24" in said(laptop) and "here: not run" in said(laptop)


def test_stand_ins_come_last_wherever_the_table_has_them(laptop):
    results = planted_deepseek(run=tuple(STAND_INS), lost=LAYERS)
    results.deepseek = STAND_INS | THEIRS
    reordered = figure_1.draw(figure_1.measure(results))
    for one, other in zip(
        *([axes for axes in figure.axes if axes.images] for figure in (laptop, reordered)), strict=True
    ):
        np.testing.assert_array_equal(one.images[0].get_array(), other.images[0].get_array())


def test_a_completion_shows_which_code_was_completed():
    figure = drawn(run=("flash-base",))
    assert "here: stand-in module" in said(figure)
    (axes,) = [axes for axes in figure.axes if axes.get_ylabel() == "probability"]
    first, second = curves(axes, linestyle="-")
    assert set(np.round(first, 2)) == {0.2, 0.9} and len(first) == len(second) == 16
    theirs = paper_numbers.code_completion("flash-base")
    np.testing.assert_allclose(curves(axes, linestyle="--"), [theirs["first"], theirs["second"]])


@pytest.mark.parametrize("run", [(), tuple(STAND_INS), tuple(ROWS)], ids=["none", "stand-ins", "all"])
def test_captions_say_n_and_intervals_and_nothing_overlaps(run):
    figure = drawn(run=run, lost=LAYERS)
    text = said(figure)
    assert "95% Wilson intervals" in text and "paper n = 256" in text and "paper n = 2,560" in text
    if run:
        assert "here n = 256" in text and "here, n = 128" in text
    assert not overlapping(figure)


def test_another_modulus_than_the_papers_leaves_its_curve_out():
    results = planted_deepseek(run=("flash-base",))
    results.needles["flash-base"] = np.tile(results.needles["flash-base"], 2)
    axes = panel(figure_1.draw(figure_1.measure(results)), "DeepSeek-V4-Flash-Base")
    assert not curves(axes, linestyle="--") and len(np.concatenate(curves(axes, linestyle="-"))) == 16


def test_many_layers_keep_few_labels_and_their_names_apart():
    layers = {layer: [30.0 if layer % 3 else 0.0, 10, 5, 60] for layer in range(43)}
    figure = drawn(run=tuple(ROWS), lost={"flash-base": layers})
    tall = max((axes for axes in figure.axes if axes.images), key=lambda axes: len(axes.images[0].get_array()))
    assert 4 <= len([text for text in tall.get_yticklabels() if text.get_text()]) <= 8
    assert not overlapping(figure) and texts(figure)


def test_a_table_without_models_says_what_to_add():
    results = planted_deepseek()
    results.deepseek = {}
    with pytest.raises(UserError, match=r"no deepseek\.models: add the rows"):
        figure_1.measure(results)
