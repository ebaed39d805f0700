; dot_products: 8 lanes
declare <8 x i64> @llvm.x86.avx512.vpmadd52l.uq.512(<8 x i64>, <8 x i64>, <8 x i64>)
declare { <8 x i64>, <8 x i1> } @llvm.uadd.with.overflow.v8i64(<8 x i64>, <8 x i64>)

define internal x86_regcallcc <8 x i64> @"accumulate"(<8 x i64> %a0, <8 x i64> %a1, <8 x i64> %a2) noinline nounwind "min-legal-vector-width"="512" "prefer-vector-width"="512" {
entry:
  %v0 = call <8 x i64> @llvm.x86.avx512.vpmadd52l.uq.512(<8 x i64> %a0, <8 x i64> %a1, <8 x i64> %a2)
  ret <8 x i64> %v0
}

define void @"dot_products"(ptr noalias %arguments, ptr noalias %counter, i64 %groups, i64 %chunk) nounwind "min-legal-vector-width"="512" "prefer-vector-width"="512" {
entry:
  %s0 = getelementptr i64, ptr %arguments, i64 0
  %p0 = load i32, ptr %s0
  %s1 = getelementptr i64, ptr %arguments, i64 1
  %p1 = load ptr, ptr %s1
  %s2 = getelementptr i64, ptr %arguments, i64 2
  %p2 = load ptr, ptr %s2
  %s3 = getelementptr i64, ptr %arguments, i64 3
  %p3 = load ptr, ptr %s3
  %m0 = alloca [64 x i8], align 64
  %groups32 = trunc i64 %groups to i32
  br label %take
take:
  %first = atomicrmw add ptr %counter, i64 %chunk monotonic
  %more = icmp ult i64 %first, %groups
  br i1 %more, label %begin, label %finished
begin:
  %wanted = add i64 %first, %chunk
  %fits = icmp ult i64 %wanted, %groups
  %last = select i1 %fits, i64 %wanted, i64 %groups
  br label %group
group:
  %index = phi i64 [ %first, %begin ], [ %following, %next ]
  %group32 = trunc i64 %index to i32
  %v0 = mul i32 %group32, 8
  %v1 = insertelement <8 x i32> poison, i32 %v0, i64 0
  %v2 = shufflevector <8 x i32> %v1, <8 x i32> poison, <8 x i32> zeroinitializer
  %v3 = add <8 x i32> %v2, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v4 = insertelement <8 x i32> poison, i32 %p0, i64 0
  %v5 = shufflevector <8 x i32> %v4, <8 x i32> poison, <8 x i32> zeroinitializer
  %v6 = icmp ult <8 x i32> %v3, %v5
  %v7 = xor <8 x i1> %v6, splat (i1 true)
  %v10 = bitcast <8 x i1> %v6 to i8
  %v11 = icmp ne i8 %v10, 0
  br i1 %v11, label %run9, label %after10
run9:
  %v12 = mul <8 x i32> %v3, splat (i32 4)
  %v13 = zext <8 x i32> %v12 to <8 x i64>
  %v14 = getelementptr i64, ptr %p1, <8 x i64> %v13
  %v15 = insertelement <8 x ptr> poison, ptr %m0, i64 0
  %v16 = shufflevector <8 x ptr> %v15, <8 x ptr> poison, <8 x i32> zeroinitializer
  %v17 = select <8 x i1> %v6, <8 x ptr> %v14, <8 x ptr> %v16
  %v18 = extractelement <8 x ptr> %v17, i64 0
  %v19 = extractelement <8 x ptr> %v17, i64 1
  %v20 = extractelement <8 x ptr> %v17, i64 2
  %v21 = extractelement <8 x ptr> %v17, i64 3
  %v22 = extractelement <8 x ptr> %v17, i64 4
  %v23 = extractelement <8 x ptr> %v17, i64 5
  %v24 = extractelement <8 x ptr> %v17, i64 6
  %v25 = extractelement <8 x ptr> %v17, i64 7
  %v26 = load <4 x i64>, ptr %v18, align 4
  %v27 = load <4 x i64>, ptr %v19, align 4
  %v28 = load <4 x i64>, ptr %v20, align 4
  %v29 = load <4 x i64>, ptr %v21, align 4
  %v30 = load <4 x i64>, ptr %v22, align 4
  %v31 = load <4 x i64>, ptr %v23, align 4
  %v32 = load <4 x i64>, ptr %v24, align 4
  %v33 = load <4 x i64>, ptr %v25, align 4
  %v34 = shufflevector <4 x i64> %v26, <4 x i64> %v30, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v35 = shufflevector <4 x i64> %v27, <4 x i64> %v31, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v36 = shufflevector <4 x i64> %v28, <4 x i64> %v32, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v37 = shufflevector <4 x i64> %v29, <4 x i64> %v33, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v38 = shufflevector <8 x i64> %v34, <8 x i64> %v35, <8 x i32> <i32 0, i32 8, i32 2, i32 10, i32 4, i32 12, i32 6, i32 14>
  %v39 = shufflevector <8 x i64> %v34, <8 x i64> %v35, <8 x i32> <i32 1, i32 9, i32 3, i32 11, i32 5, i32 13, i32 7, i32 15>
  %v40 = shufflevector <8 x i64> %v36, <8 x i64> %v37, <8 x i32> <i32 0, i32 8, i32 2, i32 10, i32 4, i32 12, i32 6, i32 14>
  %v41 = shufflevector <8 x i64> %v36, <8 x i64> %v37, <8 x i32> <i32 1, i32 9, i32 3, i32 11, i32 5, i32 13, i32 7, i32 15>
  %v42 = shufflevector <8 x i64> %v38, <8 x i64> %v40, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v43 = shufflevector <8 x i64> %v39, <8 x i64> %v41, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v44 = shufflevector <8 x i64> %v38, <8 x i64> %v40, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v45 = shufflevector <8 x i64> %v39, <8 x i64> %v41, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v46 = zext <8 x i32> %v12 to <8 x i64>
  %v47 = getelementptr i64, ptr %p2, <8 x i64> %v46
  %v48 = insertelement <8 x ptr> poison, ptr %m0, i64 0
  %v49 = shufflevector <8 x ptr> %v48, <8 x ptr> poison, <8 x i32> zeroinitializer
  %v50 = select <8 x i1> %v6, <8 x ptr> %v47, <8 x ptr> %v49
  %v51 = extractelement <8 x ptr> %v50, i64 0
  %v52 = extractelement <8 x ptr> %v50, i64 1
  %v53 = extractelement <8 x ptr> %v50, i64 2
  %v54 = extractelement <8 x ptr> %v50, i64 3
  %v55 = extractelement <8 x ptr> %v50, i64 4
  %v56 = extractelement <8 x ptr> %v50, i64 5
  %v57 = extractelement <8 x ptr> %v50, i64 6
  %v58 = extractelement <8 x ptr> %v50, i64 7
  %v59 = load <4 x i64>, ptr %v51, align 4
  %v60 = load <4 x i64>, ptr %v52, align 4
  %v61 = load <4 x i64>, ptr %v53, align 4
  %v62 = load <4 x i64>, ptr %v54, align 4
  %v63 = load <4 x i64>, ptr %v55, align 4
  %v64 = load <4 x i64>, ptr %v56, align 4
  %v65 = load <4 x i64>, ptr %v57, align 4
  %v66 = load <4 x i64>, ptr %v58, align 4
  %v67 = shufflevector <4 x i64> %v59, <4 x i64> %v63, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v68 = shufflevector <4 x i64> %v60, <4 x i64> %v64, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v69 = shufflevector <4 x i64> %v61, <4 x i64> %v65, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v70 = shufflevector <4 x i64> %v62, <4 x i64> %v66, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v71 = shufflevector <8 x i64> %v67, <8 x i64> %v68, <8 x i32> <i32 0, i32 8, i32 2, i32 10, i32 4, i32 12, i32 6, i32 14>
  %v72 = shufflevector <8 x i64> %v67, <8 x i64> %v68, <8 x i32> <i32 1, i32 9, i32 3, i32 11, i32 5, i32 13, i32 7, i32 15>
  %v73 = shufflevector <8 x i64> %v69, <8 x i64> %v70, <8 x i32> <i32 0, i32 8, i32 2, i32 10, i32 4, i32 12, i32 6, i32 14>
  %v74 = shufflevector <8 x i64> %v69, <8 x i64> %v70, <8 x i32> <i32 1, i32 9, i32 3, i32 11, i32 5, i32 13, i32 7, i32 15>
  %v75 = shufflevector <8 x i64> %v71, <8 x i64> %v73, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v76 = shufflevector <8 x i64> %v72, <8 x i64> %v74, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v77 = shufflevector <8 x i64> %v71, <8 x i64> %v73, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v78 = shufflevector <8 x i64> %v72, <8 x i64> %v74, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v79 = call x86_regcallcc <8 x i64> @"accumulate"(<8 x i64> %v42, <8 x i64> %v42, <8 x i64> %v75)
  %v80 = call x86_regcallcc <8 x i64> @"accumulate"(<8 x i64> %v79, <8 x i64> %v43, <8 x i64> %v76)
  %v81 = call x86_regcallcc <8 x i64> @"accumulate"(<8 x i64> %v80, <8 x i64> %v44, <8 x i64> %v77)
  %v82 = call x86_regcallcc <8 x i64> @"accumulate"(<8 x i64> %v81, <8 x i64> %v45, <8 x i64> %v78)
  %v83 = call { <8 x i64>, <8 x i1> } @llvm.uadd.with.overflow.v8i64(<8 x i64> %v82, <8 x i64> %v43)
  %v84 = extractvalue { <8 x i64>, <8 x i1> } %v83, 0
  %v85 = extractvalue { <8 x i64>, <8 x i1> } %v83, 1
  %v86 = call { <8 x i64>, <8 x i1> } @llvm.uadd.with.overflow.v8i64(<8 x i64> %v44, <8 x i64> %v78)
  %v87 = extractvalue { <8 x i64>, <8 x i1> } %v86, 0
  %v88 = extractvalue { <8 x i64>, <8 x i1> } %v86, 1
  %v89 = zext <8 x i1> %v85 to <8 x i64>
  %v90 = call { <8 x i64>, <8 x i1> } @llvm.uadd.with.overflow.v8i64(<8 x i64> %v87, <8 x i64> %v89)
  %v91 = extractvalue { <8 x i64>, <8 x i1> } %v90, 0
  %v92 = extractvalue { <8 x i64>, <8 x i1> } %v90, 1
  %v93 = or <8 x i1> %v88, %v92
  %v94 = mul <8 x i32> %v3, splat (i32 2)
  %v95 = zext <8 x i32> %v94 to <8 x i64>
  %v96 = getelementptr i64, ptr %p3, <8 x i64> %v95
  %v97 = insertelement <8 x ptr> poison, ptr %m0, i64 0
  %v98 = shufflevector <8 x ptr> %v97, <8 x ptr> poison, <8 x i32> zeroinitializer
  %v99 = select <8 x i1> %v6, <8 x ptr> %v96, <8 x ptr> %v98
  %v100 = extractelement <8 x ptr> %v99, i64 0
  %v101 = extractelement <8 x ptr> %v99, i64 1
  %v102 = extractelement <8 x ptr> %v99, i64 2
  %v103 = extractelement <8 x ptr> %v99, i64 3
  %v104 = extractelement <8 x ptr> %v99, i64 4
  %v105 = extractelement <8 x ptr> %v99, i64 5
  %v106 = extractelement <8 x ptr> %v99, i64 6
  %v107 = extractelement <8 x ptr> %v99, i64 7
  %v108 = shufflevector <8 x i64> %v84, <8 x i64> %v91, <8 x i32> <i32 0, i32 8, i32 2, i32 10, i32 4, i32 12, i32 6, i32 14>
  %v109 = shufflevector <8 x i64> %v108, <8 x i64> poison, <2 x i32> <i32 0, i32 1>
  %v110 = shufflevector <8 x i64> %v108, <8 x i64> poison, <2 x i32> <i32 2, i32 3>
  %v111 = shufflevector <8 x i64> %v108, <8 x i64> poison, <2 x i32> <i32 4, i32 5>
  %v112 = shufflevector <8 x i64> %v108, <8 x i64> poison, <2 x i32> <i32 6, i32 7>
  %v113 = shufflevector <8 x i64> %v84, <8 x i64> %v91, <8 x i32> <i32 1, i32 9, i32 3, i32 11, i32 5, i32 13, i32 7, i32 15>
  %v114 = shufflevector <8 x i64> %v113, <8 x i64> poison, <2 x i32> <i32 0, i32 1>
  %v115 = shufflevector <8 x i64> %v113, <8 x i64> poison, <2 x i32> <i32 2, i32 3>
  %v116 = shufflevector <8 x i64> %v113, <8 x i64> poison, <2 x i32> <i32 4, i32 5>
  %v117 = shufflevector <8 x i64> %v113, <8 x i64> poison, <2 x i32> <i32 6, i32 7>
  store <2 x i64> %v109, ptr %v100, align 4
  store <2 x i64> %v114, ptr %v101, align 4
  store <2 x i64> %v110, ptr %v102, align 4
  store <2 x i64> %v115, ptr %v103, align 4
  store <2 x i64> %v111, ptr %v104, align 4
  store <2 x i64> %v116, ptr %v105, align 4
  store <2 x i64> %v112, ptr %v106, align 4
  store <2 x i64> %v117, ptr %v107, align 4
  br label %after10
after10:
  br label %next
next:
  %following = add i64 %index, 1
  %again = icmp ult i64 %following, %last
  br i1 %again, label %group, label %take
finished:
  ret void
}
