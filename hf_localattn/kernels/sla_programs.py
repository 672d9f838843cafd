"""Triton kernels of SLA's gated attention.

The scores of a block of queries and keys are computed once for both softmaxes, and the local mask is computed from a
few integers per token. No tensor has the size of the scores. The backward pass computes the blocks again.

Each program has a head of an example and a block of its tokens. All kernels have these parameters:

* `query_states`, `key_states`, `value_states`, and their gradients: (B, L, heads, D).
* `gates`: (B, L).
* `segments` (B, L), `generations` (B, GENERATIONS, L), `reach` (B, REACH, L), `NEAR`: see `MaskTables`.
* `seed`: (1,), with `dropout` and `kept_value`, 1 / (1 - dropout); not used unless `DROPS`.
* `sums`: (2, B, heads, L), logarithms of the sums of the global and the local softmax.
* `products`: (2, B, heads, L), gradients of the output times the outputs of both attentions.
* `scaling`: factor of the scores, divided by the logarithm of 2, as exponentials are to base 2.

Softmaxes and sums are in single precision. Masked scores are -1e30; a row without keys attends to all keys equally, as
in the definition. Keys outside the text have -inf.
"""

from __future__ import annotations

from hf_localattn.kernels.choice import constexpr, jit, tl

LN_2 = constexpr(0.6931471805599453)
"""Derivative of 2 ** x at 0. It undoes the division in `scaling`."""


@jit
def forward_kernel(
    query_states,
    key_states,
    value_states,
    gates,
    segments,
    generations,
    reach,
    seed,
    output,
    sums,
    scaling,
    dropout,
    kept_value,
    length,
    heads,
    width,
    NEAR: constexpr,
    REACH: constexpr,
    GENERATIONS: constexpr,
    DROPS: constexpr,
    BLOCK: constexpr,
    WIDTH: constexpr,
    PRECISION: constexpr,
):
    """Compute the output of a block of queries."""
    head, query = _place(length, BLOCK)
    example, states = _offsets(head, length, heads, width)
    stride = heads * width
    segments += example * length
    generations += example * length * GENERATIONS
    reach += example * length * REACH
    queries = _read(query_states + states, query, stride, length, width, WIDTH)
    highest, total, mixture = _empty(BLOCK, WIDTH)
    local_highest, local_total, local_mixture = _empty(BLOCK, WIDTH)
    for start in range(0, length, BLOCK):
        key = start + tl.arange(0, BLOCK)
        keys = _read(key_states + states, key, stride, length, width, WIDTH)
        values = _read(value_states + states, key, stride, length, width, WIDTH)
        scores = tl.dot(queries, tl.trans(keys), input_precision=PRECISION) * scaling
        scores, local = _masked(scores, segments, generations, reach, query, key, length, NEAR, REACH, GENERATIONS)
        kept, local_kept = draw(seed, dropout, kept_value, head, query, key, DROPS)
        highest, total, mixture = _add(highest, total, mixture, scores, kept, values, PRECISION)
        local_highest, local_total, local_mixture = _add(
            local_highest, local_total, local_mixture, local, local_kept, values, PRECISION
        )
    there = query < length
    gate = tl.load(gates + example * length + query, mask=there, other=0.0).to(tl.float32)[:, None]
    mixed = mixture / total[:, None] * (1.0 - gate) + local_mixture / local_total[:, None] * gate
    _write(output + states, mixed, query, stride, length, width, WIDTH)
    of_head = sums + head * length + query
    tl.store(of_head, highest + tl.log2(total), mask=there)
    of_head += _local_half(length, BLOCK)
    tl.store(of_head, local_highest + tl.log2(local_total), mask=there)


@jit
def query_kernel(
    query_states,
    key_states,
    value_states,
    gates,
    segments,
    generations,
    reach,
    seed,
    gradients,
    sums,
    products,
    of_query,
    scaling,
    dropout,
    kept_value,
    length,
    heads,
    width,
    NEAR: constexpr,
    REACH: constexpr,
    GENERATIONS: constexpr,
    DROPS: constexpr,
    BLOCK: constexpr,
    WIDTH: constexpr,
    PRECISION: constexpr,
):
    """Compute the gradient of a block of queries, and its gradients times the outputs of both attentions."""
    head, query = _place(length, BLOCK)
    example, states = _offsets(head, length, heads, width)
    stride = heads * width
    segments += example * length
    generations += example * length * GENERATIONS
    reach += example * length * REACH
    there = query < length
    second = _local_half(length, BLOCK)
    queries = _read(query_states + states, query, stride, length, width, WIDTH)
    gradient = _read(gradients + states, query, stride, length, width, WIDTH)
    gate = tl.load(gates + example * length + query, mask=there, other=0.0).to(tl.float32)
    total = tl.load(sums + head * length + query, mask=there, other=0.0)
    local_total = tl.load(sums + second + head * length + query, mask=there, other=0.0)
    product = tl.zeros([BLOCK], tl.float32)
    local_product = tl.zeros([BLOCK], tl.float32)
    for start in range(0, length, BLOCK):
        key = start + tl.arange(0, BLOCK)
        keys = _read(key_states + states, key, stride, length, width, WIDTH)
        values = _read(value_states + states, key, stride, length, width, WIDTH)
        scores = tl.dot(queries, tl.trans(keys), input_precision=PRECISION) * scaling
        scores, local = _masked(scores, segments, generations, reach, query, key, length, NEAR, REACH, GENERATIONS)
        kept, local_kept = draw(seed, dropout, kept_value, head, query, key, DROPS)
        of_weights = tl.dot(gradient, tl.trans(values), input_precision=PRECISION)
        product += tl.sum(_weights(scores, total, length) * kept * of_weights, 1)
        local_product += tl.sum(_weights(local, local_total, length) * local_kept * of_weights, 1)
    tl.store(products + head * length + query, product, mask=there)
    tl.store(products + second + head * length + query, local_product, mask=there)
    of_queries = tl.zeros([BLOCK, WIDTH], tl.float32)
    for start in range(0, length, BLOCK):
        key = start + tl.arange(0, BLOCK)
        keys = _read(key_states + states, key, stride, length, width, WIDTH)
        values = _read(value_states + states, key, stride, length, width, WIDTH)
        scores = tl.dot(queries, tl.trans(keys), input_precision=PRECISION) * scaling
        scores, local = _masked(scores, segments, generations, reach, query, key, length, NEAR, REACH, GENERATIONS)
        kept, local_kept = draw(seed, dropout, kept_value, head, query, key, DROPS)
        of_weights = tl.dot(gradient, tl.trans(values), input_precision=PRECISION)
        of_scores = _weights(scores, total, length) * (1.0 - gate)[:, None] * (kept * of_weights - product[:, None])
        of_scores += (
            _weights(local, local_total, length) * gate[:, None] * (local_kept * of_weights - local_product[:, None])
        )
        of_queries += tl.dot(of_scores.to(keys.dtype), keys, input_precision=PRECISION)
    _write(of_query + states, of_queries * (scaling * LN_2), query, stride, length, width, WIDTH)


@jit
def key_kernel(
    query_states,
    key_states,
    value_states,
    gates,
    segments,
    generations,
    reach,
    seed,
    gradients,
    sums,
    products,
    of_key,
    of_value,
    scaling,
    dropout,
    kept_value,
    length,
    heads,
    width,
    NEAR: constexpr,
    REACH: constexpr,
    GENERATIONS: constexpr,
    DROPS: constexpr,
    BLOCK: constexpr,
    WIDTH: constexpr,
    PRECISION: constexpr,
):
    """Compute the gradients of a block of keys and of their values."""
    head, key = _place(length, BLOCK)
    example, states = _offsets(head, length, heads, width)
    stride = heads * width
    segments += example * length
    generations += example * length * GENERATIONS
    reach += example * length * REACH
    second = _local_half(length, BLOCK)
    keys = _read(key_states + states, key, stride, length, width, WIDTH)
    values = _read(value_states + states, key, stride, length, width, WIDTH)
    of_keys = tl.zeros([BLOCK, WIDTH], tl.float32)
    of_values = tl.zeros([BLOCK, WIDTH], tl.float32)
    for start in range(0, length, BLOCK):
        query = start + tl.arange(0, BLOCK)
        there = query < length
        queries = _read(query_states + states, query, stride, length, width, WIDTH)
        gradient = _read(gradients + states, query, stride, length, width, WIDTH)
        gate = tl.load(gates + example * length + query, mask=there, other=0.0).to(tl.float32)[:, None]
        of_head = head * length + query
        total = tl.load(sums + of_head, mask=there, other=0.0)
        local_total = tl.load(sums + second + of_head, mask=there, other=0.0)
        product = tl.load(products + of_head, mask=there, other=0.0)[:, None]
        local_product = tl.load(products + second + of_head, mask=there, other=0.0)[:, None]
        scores = tl.dot(queries, tl.trans(keys), input_precision=PRECISION) * scaling
        scores, local = _masked(scores, segments, generations, reach, query, key, length, NEAR, REACH, GENERATIONS)
        kept, local_kept = draw(seed, dropout, kept_value, head, query, key, DROPS)
        weights = _weights(scores, total, length) * (1.0 - gate)
        local_weights = _weights(local, local_total, length) * gate
        of_weights = tl.dot(gradient, tl.trans(values), input_precision=PRECISION)
        mixed = weights * kept + local_weights * local_kept
        of_values += tl.dot(tl.trans(mixed.to(values.dtype)), gradient, input_precision=PRECISION)
        of_scores = weights * (kept * of_weights - product)
        of_scores += local_weights * (local_kept * of_weights - local_product)
        of_keys += tl.dot(tl.trans(of_scores.to(keys.dtype)), queries, input_precision=PRECISION)
    _write(of_key + states, of_keys * (scaling * LN_2), key, stride, length, width, WIDTH)
    _write(of_value + states, of_values, key, stride, length, width, WIDTH)


@jit
def _place(length, BLOCK: constexpr):
    """Return the program's head, counted over the batch, and its tokens (BLOCK,)."""
    blocks = tl.cdiv(length, BLOCK)
    head = tl.program_id(0) // blocks
    return head.to(tl.int64), tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)


@jit
def _local_half(length, BLOCK: constexpr):
    """Return where the local softmax begins in `sums` and `products`."""
    heads_of_batch = tl.num_programs(0) // tl.cdiv(length, BLOCK)
    return heads_of_batch.to(tl.int64) * length


@jit
def _offsets(head, length, heads, width):
    """Return the head's example, and the place of its states in tensors (B, L, heads, D)."""
    example = head // heads
    return example, (example * length * heads + head % heads) * width


@jit
def _read(states, tokens, stride, length, width, WIDTH: constexpr):
    """Read states (BLOCK, WIDTH), with zeros outside."""
    column = tl.arange(0, WIDTH)[None, :]
    there = (tokens < length)[:, None] & (column < width)
    return tl.load(states + tokens[:, None] * stride + column, mask=there, other=0.0)


@jit
def _write(states, values, tokens, stride, length, width, WIDTH: constexpr):
    """Write states (BLOCK, WIDTH) in the dtype of the tensor."""
    column = tl.arange(0, WIDTH)[None, :]
    there = (tokens < length)[:, None] & (column < width)
    tl.store(states + tokens[:, None] * stride + column, values.to(states.dtype.element_ty), mask=there)


@jit
def _masked(
    scores, segments, generations, reach, query, key, length, NEAR: constexpr, REACH: constexpr, GENERATIONS: constexpr
):
    """Return global and local scores (queries, keys), -1e30 at masked keys; compare `MaskTables.rows`."""
    is_query = query < length
    is_key = key < length
    of_query = tl.load(segments + query, mask=is_query, other=-1)[:, None]
    of_key = tl.load(segments + key, mask=is_key, other=-2)[None, :]
    near = (of_query < 0) | (of_key < 0) | (of_key & 1 == 1) | (of_query >> 1 != of_key >> 1)
    if REACH == 0:
        word = tl.load(generations + query, mask=is_query, other=0)[:, None]
        other_word = tl.load(generations + key, mask=is_key, other=0)[None, :]
        near = near | (tl.abs(word - other_word) <= NEAR)
    for neighbor in tl.static_range(REACH):
        place = tl.load(reach + neighbor * length + query, mask=is_query, other=0)
        for up in tl.static_range(NEAR + 1):
            ancestor = tl.load(generations + up * length + place)[:, None]
            for less in tl.static_range(2):
                if up + less <= NEAR:
                    down = generations + (NEAR - up - less) * length
                    near = near | (ancestor == tl.load(down + key, mask=is_key, other=-1)[None, :])
        if GENERATIONS > NEAR + 1:
            depth = generations + (NEAR + 1) * length
            other_depth = tl.load(depth + key, mask=is_key, other=0)[None, :]
            near = near | (tl.load(depth + place)[:, None] + 1 + other_depth <= NEAR)
    is_real = of_key > -2
    near = (near & is_real) | (query[:, None] == key[None, :])
    local = tl.where(near, scores, -1e30)
    scores = tl.where(is_real, scores, -1e30)
    nothing = -float("inf")
    return tl.where(is_key[None, :], scores, nothing), tl.where(is_key[None, :], local, nothing)


@jit
def draw(seed, dropout, kept_value, head, query, key, DROPS: constexpr):
    """Return the factors of both attentions by dropout: 0 or 1 / (1 - dropout)."""
    kept = tl.full([query.shape[0], key.shape[0]], 1.0, tl.float32)
    local_kept = kept
    if DROPS:
        zeros = tl.zeros([query.shape[0], key.shape[0]], tl.int32)
        # The counter is the position of the weight. The first two of its four numbers are used.
        drawn, local_drawn, _, _ = tl.philox(
            tl.load(seed), zeros + key[None, :], zeros + query[:, None], zeros + head.to(tl.int32), zeros
        )
        kept = tl.where(tl.uint_to_uniform_float(drawn) >= dropout, kept_value, 0.0)
        local_kept = tl.where(tl.uint_to_uniform_float(local_drawn) >= dropout, kept_value, 0.0)
    return kept, local_kept


@jit
def _empty(BLOCK: constexpr, WIDTH: constexpr):
    """Return a softmax over no keys: largest score, sum, and weighted sum of values."""
    lowest = tl.full([BLOCK], -float("inf"), tl.float32)
    return lowest, tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK, WIDTH], tl.float32)


@jit
def _add(highest, total, mixture, scores, kept, values, PRECISION: constexpr):
    """Add a block of keys to a softmax."""
    new = tl.maximum(highest, tl.max(scores, 1))
    shrink = tl.exp2(highest - new)
    weights = tl.exp2(scores - new[:, None])
    total = total * shrink + tl.sum(weights, 1)
    dropped = (weights * kept).to(values.dtype)
    mixture = mixture * shrink[:, None] + tl.dot(dropped, values, input_precision=PRECISION)
    return new, total, mixture


@jit
def _weights(scores, total, length):
    """Return the weights of a block from the logarithms of their sums. Rows without keys have equal weights."""
    return tl.exp2(scores - total[:, None]) * tl.where(total < -1e29, 1.0 / length, 1.0)[:, None]
