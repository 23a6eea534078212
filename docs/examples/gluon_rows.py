"""A Gluon kernel of your own: it copies boxes of a matrix into shared memory and adds up rows."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

TILE = gl.constexpr(gl.BlockedLayout([1, 8], [8, 4], [4, 1], [1, 0]))


@gluon.jit
def sum_rows(y, x, columns):
    """The sum of each row; x is a descriptor."""
    box = gl.allocate_shared_memory(x.dtype, x.block_shape, x.layout)
    ready = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(ready, count=1)
    first = gl.program_id(0) * x.block_shape[0]
    total = gl.zeros([x.block_shape[0]], gl.float32, gl.SliceLayout(1, TILE))
    for start in range(0, columns, x.block_shape[1]):
        mbarrier.expect(ready, x.block_type.nbytes)
        tma.async_load(x, [first, start], ready, box)
        mbarrier.wait(ready, start // x.block_shape[1] % 2)
        total += gl.sum(box.load(TILE).to(gl.float32), 1)
    at = first + gl.arange(0, x.block_shape[0], gl.SliceLayout(1, TILE))
    gl.store(y + at, total, mask=at < x.shape[0])
