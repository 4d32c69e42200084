"""Parts of a similarity: class tokens and their pairs, codes, pairs of tokens."""

from __future__ import annotations

import pytest
import torch
from explained import MODELS, TEXTS, VIT, built, pictures
from PIL import Image

import equipoise as eq
from equipoise.analysis.explain.parts import largest_parts
from equipoise.analysis.explain.relevance import relevance
from equipoise.models.model import Model
from equipoise.spaces import TokenSets
from equipoise.types import UserError


def scores(model: Model, *part: int) -> torch.Tensor:
    return relevance(model, pictures(model), TEXTS, "gradient_attention", part).scores


def halves(model: Model, parts: int) -> tuple[torch.Tensor, torch.Tensor]:
    u, v = model.image_points(pictures(model)), model.encode_text(TEXTS)
    return u.unflatten(1, (parts, -1)).detach(), v.unflatten(1, (parts, -1))


def test_pairs_of_class_tokens_sum_to_the_similarity() -> None:
    model = MODELS["multi"]()
    u, v = halves(model, 4)
    assert torch.allclose(scores(model), sum(scores(model, k) for k in range(4)))
    assert torch.allclose(scores(model, 1, 3), (u[:, 1] * v[:, 3]).sum(1))


def test_geodesic_spheres_add_up_by_their_squares() -> None:
    model = MODELS["geodesic"]()
    each = [scores(model, k) for k in range(4)]
    assert all((one <= 0).all() for one in each)
    assert torch.allclose(scores(model), -sum(one**2 for one in each).sqrt())


def test_a_class_tokens_relevance_is_its_own_row() -> None:
    """In the last layer only the class token that is asked for is read."""
    from equipoise.analysis.explain.trace import trace

    model = MODELS["multi"]()
    ids, mask = model.text_encoder.prepare(TEXTS, None, model.tokenizer)
    found = trace(model, pictures(model), ids, mask, mask, (2, 1))
    for one, row in ((found.image, 2), (found.text, 1)):
        assert torch.allclose(one.layers[-1].readers[:, row], torch.ones(2).double())


def test_a_pair_of_tokens_is_their_inner_product() -> None:
    model = MODELS["filip"]()
    u, v = halves(model, 32)
    assert torch.allclose(scores(model, 4, 2), (u[:, 4] * v[:, 2]).sum(1))
    with pytest.raises(UserError, match="20,2"):
        scores(model, 20, 2)  # a picture has nine patches


def test_a_code_is_its_relevance_to_both() -> None:
    model = MODELS["code_book"]()
    image = model.tower("image").features(pictures(model), with_tokens=True)
    ids, mask = model.text_encoder.prepare(TEXTS, None, model.tokenizer)
    text = model.tower("text").features(ids, mask, with_tokens=True)
    expected = model.image_readout.relevance(image, model.shared) + model.text_readout.relevance(text, model.shared)
    assert torch.allclose(scores(model, 5), expected[:, 5].detach())


@pytest.mark.parametrize(
    ("name", "part"), [("vit", (0,)), ("multi", (4,)), ("multi", (0, 1, 2)), ("code_book", (24,)), ("filip", (1,))]
)
def test_parts_that_do_not_exist_are_one_sentence(name: str, part: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match=r"--part|no parts") as told:
        scores(MODELS[name](), *part)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("name", ["multi", "code_book", "filip"])
def test_the_largest_parts_come_first(name: str) -> None:
    model = MODELS[name]().float()
    picture = Image.effect_noise((40, 40), 80).convert("RGB")
    parts = largest_parts(model, picture, TEXTS[0], 3)
    assert 0 < len(parts) <= 3
    if name != "code_book":  # whose codes are ordered by their shares
        found = [eq.explain(model, picture, TEXTS[0], part=part).similarity for part in parts]
        assert found == sorted(found, reverse=True)
    with pytest.raises(UserError, match="no parts"):
        largest_parts(MODELS["vit"]().float(), picture, TEXTS[0])


@pytest.mark.parametrize("causal", [True, False])
def test_parts_of_token_sets_are_words(causal: bool) -> None:
    """Each is a word with its closest patch; start and end of the text, which a causal tower counts, are none."""
    model = built(VIT, 24, "token_set", TokenSets(8, 32), causal=causal).float()
    picture, text = Image.effect_noise((40, 40), 80).convert("RGB"), TEXTS[0]
    parts = largest_parts(model, picture, text, 99)
    spans = model.tokenizer.word_spans([text])[0]
    places = [place for place, span in enumerate(spans) if span is not None]
    assert sorted(word for _, word in parts) == [place if causal else place - 1 for place in places]
    u, v = (x.unflatten(1, (32, -1))[0] for x in (model.encode_image(picture), model.encode_text(text)))
    for patch, word in parts:
        assert patch == int((u[:9] @ v[word]).argmax())
