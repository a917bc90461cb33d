"""A configuration in the form of pytorch-kaldi's, with two streams, two networks and two heads."""

from collections.abc import Mapping
from pathlib import Path

RNN = """
[architecture1]
arch_name = rnn
arch_class = liGRU
arch_freeze = False
ligru_lay = 6,4
ligru_drop = 0.2,0.1
ligru_use_laynorm_inp = False
ligru_use_batchnorm_inp = True
ligru_use_laynorm = False,False
ligru_use_batchnorm = True,False
ligru_bidir = True
ligru_act = relu,tanh
ligru_orthinit = True
arch_lr = 0.0004
arch_halving_factor = 0.5
arch_improvement_threshold = 0.001
arch_opt = rmsprop
opt_momentum = 0.0
opt_alpha = 0.9
opt_eps = 1e-7
opt_centered = False
opt_weight_decay = 0.0
"""
HEAD = """
[architecture{number}]
arch_name = head{number}
arch_class = MLP
arch_freeze = False
dnn_lay = {units}
dnn_drop = 0.0
dnn_use_laynorm_inp = False
dnn_use_batchnorm_inp = False
dnn_use_batchnorm = False
dnn_use_laynorm = False
dnn_act = softmax
arch_lr = {rate}
arch_halving_factor = 0.5
arch_improvement_threshold = 0.001
arch_opt = {optimizer}
opt_weight_decay = 0.0
"""
ENDS = ("loss_final=cost_nll", "err_final=cost_err")
CMVN = "apply-cmvn --utt2spk=ark:u ark:c ark:- ark:- |"
DELTAS = " add-deltas --delta-order=2 ark:- ark:- |"
SET = """
[dataset{number}]
data_name = {name}
fea = fea_name=mfcc
\tfea_lst=data/{name}/feats.scp
\tfea_opts=apply-cmvn --utt2spk=ark:u ark:c ark:- ark:- | add-deltas --delta-order=2 ark:- ark:- |
\tcw_left=1
\tcw_right=2

\tfea_name=fbank
\tfea_lst=fbank/{name}/feats.scp
\tfea_opts=apply-cmvn --norm-vars=true --utt2spk=ark:data/{name}/utt2spk ark:c.ark ark:- ark:- |
\tcw_left=0
\tcw_right=0
lab = lab_name=lab_cd
\tlab_folder=exp/ali_{name}
\tlab_opts=ali-to-pdf
\tlab_count_file=auto
\tlab_data_folder=data/{name}
\tlab_graph=exp/graph

\tlab_name=lab_mono
\tlab_folder=exp/ali_{name}
\tlab_opts=ali-to-phones --per-frame=true
\tlab_count_file=none
\tlab_data_folder=data/{name}
\tlab_graph=exp/graph
n_chunks = 5
"""
MODEL = """both=concatenate(mfcc,fbank)
\tout1=compute(rnn,both)
\tout2=compute(head2,out1)
\tout3=compute(head3,out1)
\tcd=cost_nll(out2,lab_cd)
\tmono=cost_nll(out3,lab_mono)
\tmono_w=mult_constant(mono,0.5)
\tloss_final=sum(cd,mono_w)
\terr_final=cost_err(out2,lab_cd)"""
CFG = "".join(
    (
        "[exp]\nseed = 7\nuse_cuda = False\nout_folder = exp/x\nN_epochs_tr = 6\n",
        "multi_gpu = True\n",
        *(SET.format(number=n, name=name) for n, name in enumerate(("train", "dev", "test"), 1)),
        "\n[data_use]\ntrain_with = train\nvalid_with = dev\nforward_with = test\n",
        "\n[batches]\nbatch_size_train = 4*2 | 2*4\nmax_seq_length_train = 500\n",
        "increase_seq_length_train = True\nstart_seq_len_train = 100\n",
        "multply_factor_seq_len_train = 2\nbatch_size_valid = 8\nmax_seq_length_valid = 1000\n",
        RNN,
        HEAD.format(number=2, units="N_out_lab_cd", rate=0.0008, optimizer="rmsprop"),
        HEAD.format(number=3, units=48, rate=0.0004, optimizer="sgd"),
        f"\n[model]\nmodel = {MODEL}\n",
        "\n[forward]\nforward_out = out2\nnormalize_with_counts_from = lab_cd\n",
        "\n[decoding]\nmin_active = 100\nmax_active = 5000\nbeam = 12.5\nlatbeam = 7\nacwt = 0.2\n",
        'scoring_opts = "--min-lmwt 2 --max-lmwt 5"\n',
    )
)


def write(folder: Path, *changes: tuple[str, str]) -> Path:
    """Write it with some texts in place of others."""
    text = CFG
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    path = folder / "theirs.cfg"
    path.write_text(text, encoding="utf-8")
    return path


NETWORK = """
[architecture{number}]
arch_name = net{number}
arch_class = {kind}
arch_freeze = False
{options}
arch_lr = 0.1
arch_halving_factor = 0.5
arch_improvement_threshold = 0.001
arch_opt = sgd
"""


def write_networks(folder: Path, *networks: tuple[str, Mapping[str, str]]) -> Path:
    """Write one with these networks, each a class and its options, one behind the other.

    The last one is compared with the pdfs.
    """
    values = [f"out{number}" for number in range(1, len(networks) + 1)]
    reads = ["mfcc", *values]
    operations = [
        f"{value}=compute(net{number},{reads[number - 1]})"
        for number, value in enumerate(values, 1)
    ]
    operations += [f"{end}(out{len(values)},lab_cd)" for end in ENDS]
    sections = "".join(
        NETWORK.format(
            number=number, kind=kind, options="\n".join(f"{k} = {v}" for k, v in given.items())
        )
        for number, (kind, given) in enumerate(networks, 1)
    )
    before, _, rest = CFG.partition("\n[architecture1]")
    after = rest[rest.index("\n[forward]") :].replace("= out2", f"= {values[-1]}")
    text = "\n\t".join(operations)
    path = folder / "networks.cfg"
    path.write_text(f"{before}{sections}\n[model]\nmodel = {text}\n{after}", encoding="utf-8")
    return path
